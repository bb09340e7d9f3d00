#include "bundle/folder_tar.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>

#include <fmt/core.h>

namespace dure::bundle {
namespace {

// As POSIX lays it out.
struct Header {
  char name[100];
  char mode[8];
  char uid[8];
  char gid[8];
  char size[12];
  char mtime[12];
  char checksum[8];
  char kind;
  char target[100];
  char magic[6];
  char version[2];
  char user[32];
  char group[32];
  char major[8];
  char minor[8];
  char prefix[155];
  char rest[12];
};
static_assert(sizeof(Header) == kTarBlock);

constexpr std::int64_t kLargestSize = 077777777777;

template <std::size_t N>
void putOctal(char (&field)[N], std::int64_t value) {
  const std::string digits = fmt::format("{:0{}o}", value, N - 1);
  std::memcpy(field, digits.data(), N - 1);
}

template <std::size_t N>
void putText(char (&field)[N], std::string_view text) {
  std::memcpy(field, text.data(), std::min(N, text.size()));
}

template <std::size_t N>
std::string text(const char (&field)[N]) {
  return {field, strnlen(field, N)};
}

// Digits with spaces or zeros around them; nothing for anything else.
template <std::size_t N>
std::optional<std::int64_t> octal(const char (&field)[N]) {
  std::string_view digits(field, strnlen(field, N));
  while (digits.starts_with(' ')) digits.remove_prefix(1);
  while (digits.ends_with(' ')) digits.remove_suffix(1);
  if (digits.empty()) return 0;
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.begin(), digits.end(), value, 8);
  if (error != std::errc() || end != digits.end() || value < 0) return std::nullopt;
  return value;
}

// The sum of all bytes, with the field of the sum itself as spaces.
unsigned checksum(const Header& header) {
  Header copy = header;
  std::memset(copy.checksum, ' ', sizeof copy.checksum);
  unsigned sum = 0;
  for (const char c : std::string_view(reinterpret_cast<const char*>(&copy), sizeof copy)) {
    sum += static_cast<unsigned char>(c);
  }
  return sum;
}

std::string headerBlock(TarEntry::Kind kind, std::string_view path, std::string_view target,
                        std::int64_t size, int mode) {
  Header header{};
  putText(header.name, path);
  putOctal(header.mode, mode);
  putOctal(header.uid, 0);
  putOctal(header.gid, 0);
  putOctal(header.size, size);
  putOctal(header.mtime, 0);
  header.kind = static_cast<char>(kind);
  putText(header.target, target);
  std::memcpy(header.magic, "ustar", 6);
  std::memcpy(header.version, "00", 2);
  const std::string sum = fmt::format("{:06o}", checksum(header));
  std::memcpy(header.checksum, sum.data(), 6);
  header.checksum[6] = '\0';
  header.checksum[7] = ' ';
  return {reinterpret_cast<const char*>(&header), sizeof header};
}

bool fitsInto(std::string_view text, std::size_t room) {
  return text.size() <= room &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; });
}

// "27 path=a/long/path\n", where the number counts itself too.
std::string paxRecord(std::string_view key, std::string_view value) {
  const std::size_t others = key.size() + value.size() + 3;
  std::size_t size = others + 1;
  while (size != others + std::to_string(size).size()) ++size;
  return fmt::format("{} {}={}\n", size, key, value);
}

}  // namespace

std::string encodeTarEntry(const TarEntry& entry) {
  const bool directory = entry.kind == TarEntry::Kind::kDirectory;
  const std::string path = entry.path + (directory ? "/" : "");
  std::string pax;
  if (!fitsInto(path, sizeof(Header::name))) pax += paxRecord("path", path);
  if (!fitsInto(entry.target, sizeof(Header::target))) pax += paxRecord("linkpath", entry.target);
  if (entry.size > kLargestSize) pax += paxRecord("size", std::to_string(entry.size));
  std::string blocks;
  if (!pax.empty()) {
    const auto size = static_cast<std::int64_t>(pax.size());
    blocks = headerBlock(TarEntry::Kind::kPax, "././@PaxHeader", "", size, 0644) + pax +
             tarPadding(size);
  }
  const int mode = directory || entry.executable ? 0755 : 0644;
  return blocks + headerBlock(entry.kind, path, entry.target,
                              entry.size > kLargestSize ? 0 : entry.size, mode);
}

std::string tarPadding(std::int64_t size) {
  const std::size_t over = static_cast<std::size_t>(size) % kTarBlock;
  return std::string(over == 0 ? 0 : kTarBlock - over, '\0');
}

std::string tarEnd() { return std::string(2 * kTarBlock, '\0'); }

Result<TarEntry> decodeTarHeader(std::string_view block) {
  const auto refused = [](const std::string& why) { return Error(Code::kInvalid, why); };
  Header header{};
  std::memcpy(&header, block.data(), std::min(block.size(), sizeof header));
  if (octal(header.checksum) != static_cast<std::int64_t>(checksum(header))) {
    return refused("the header of an entry is damaged");
  }
  if (std::memcmp(header.magic, "ustar", 6) != 0) return refused("not a ustar archive");
  const auto size = octal(header.size);
  const auto mode = octal(header.mode);
  if (!size || !mode) return refused("the header of an entry is no ustar header");
  TarEntry entry;
  entry.path = text(header.name);
  if (const std::string prefix = text(header.prefix); !prefix.empty()) {
    entry.path = prefix + "/" + entry.path;
  }
  entry.target = text(header.target);
  entry.size = *size;
  entry.executable = (*mode & 0100) != 0;
  switch (header.kind) {
    case '\0':
    case '0':
      entry.kind = TarEntry::Kind::kFile;
      break;
    case '2':
    case '5':
    case 'x':
    case 'g':
      entry.kind = static_cast<TarEntry::Kind>(header.kind);
      break;
    default:
      return refused(fmt::format("'{}' is neither file, link nor directory", entry.path));
  }
  return entry;
}

Status applyPax(std::string_view records, TarEntry& entry) {
  const auto damaged = [] { return Error(Code::kInvalid, "a pax header is damaged"); };
  while (!records.empty()) {
    std::size_t length = 0;
    const auto [end, error] = std::from_chars(records.begin(), records.end(), length);
    const auto digits = static_cast<std::size_t>(end - records.begin());
    if (error != std::errc() || length > records.size() || length < digits + 2) return damaged();
    const std::string_view record = records.substr(0, length);
    const std::size_t equals = record.find('=');
    if (record[digits] != ' ' || record.back() != '\n' || equals == std::string_view::npos) {
      return damaged();
    }
    const std::string_view key = record.substr(digits + 1, equals - digits - 1);
    const std::string_view value = record.substr(equals + 1, length - equals - 2);
    if (key == "path") entry.path = value;
    if (key == "linkpath") entry.target = value;
    if (key == "size") {
      const auto [stop, wrong] = std::from_chars(value.begin(), value.end(), entry.size);
      if (wrong != std::errc() || stop != value.end() || entry.size < 0) return damaged();
    }
    records.remove_prefix(length);
  }
  return {};
}

}  // namespace dure::bundle
