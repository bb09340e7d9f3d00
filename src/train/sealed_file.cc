#include "train/sealed_file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>
#include <zlib.h>

#include <vector>

#include "base/fd.h"
#include "base/files.h"

namespace dure::train {
namespace {

constexpr std::size_t kMaxManifest = 64u << 20;
// What crc32 counts, and file systems take at once, may have 32 bits only.
constexpr std::size_t kPiece = 1u << 20;

void add(Seal& seal, std::string_view bytes) {
  seal.bytes += bytes.size();
  while (!bytes.empty()) {
    const std::string_view piece = bytes.substr(0, kPiece);
    seal.checksum = static_cast<std::uint32_t>(
        crc32(seal.checksum, reinterpret_cast<const unsigned char*>(piece.data()),
              static_cast<uInt>(piece.size())));
    bytes.remove_prefix(piece.size());
  }
}

std::uint32_t checksumOf(const std::string& text) {
  Seal seal;
  add(seal, text);
  return seal.checksum;
}

}  // namespace

bool isDamage(const Error& error) {
  return error.code() == Code::kInvalid || error.code() == Code::kNotFound;
}

Result<Seal> readSeal(const std::string& path) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return systemError(path);
  Seal seal;
  std::vector<char> piece(kPiece);
  while (true) {
    const ssize_t got = read(file.get(), piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return systemError(path);
    if (got == 0) return seal;
    add(seal, {piece.data(), static_cast<std::size_t>(got)});
  }
}

Result<Seal> writeSealed(const std::string& path,
                         const std::function<Status(const Sink& sink)>& content) {
  const Fd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (!file) return systemError("write " + path);
  Seal seal;
  const auto wrote = content([&](std::string_view bytes) -> Status {
    add(seal, bytes);
    for (; !bytes.empty(); bytes.remove_prefix(std::min(kPiece, bytes.size()))) {
      if (auto done = writeAll(file.get(), bytes.substr(0, kPiece)); !done) return done;
    }
    return {};
  });
  if (!wrote) return Error(wrote.error()).during("write " + path);
  if (fsync(file.get()) != 0) return systemError("sync " + path);
  const auto there = readSeal(path);
  if (!there) return there;
  if (*there == seal) return seal;
  return Error(Code::kIo, path + ": what lies there is not what was written");
}

std::string withChecksum(const char* name, const nlohmann::json& content, int indent) {
  const nlohmann::json outer = {{name, content}, {"checksum", checksumOf(content.dump())}};
  return outer.dump(indent) + "\n";
}

Result<nlohmann::json> readWithChecksum(const char* name, const std::string& path) {
  const auto text = readFile(path, kMaxManifest);
  if (!text) return text.error();
  const auto outer = nlohmann::json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (!outer.is_object() || !outer.contains(name) || !outer.contains("checksum")) {
    return Error(Code::kInvalid, fmt::format("the {} is damaged", name));
  }
  if (outer["checksum"] != checksumOf(outer[name].dump()))
    return Error(Code::kInvalid, fmt::format("the {}'s checksum is wrong", name));
  return outer[name];
}

}  // namespace dure::train
