#include "format/npz_writer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include "base/files.h"
#include "base/text.h"
#include "format/crc32.h"
#include "format/zip_headers.h"

namespace dure::format {
namespace {

constexpr std::size_t kNumbersAlign = kZipAlign;

// How numpy names the type of numbers in this machine's order.
std::string descriptionOf(DType type) {
  switch (type) {
    case DType::kBool:
      return "|b1";
    case DType::kU8:
      return "|u1";
    case DType::kI8:
      return "|i1";
    default:
      break;
  }
  const char kind = isFloat(type) ? 'f' : dtypeName(type).starts_with("u") ? 'u' : 'i';
  return fmt::format("<{}{}", kind, sizeOf(type));
}

std::string npyHead(const std::string& description, const std::vector<std::int64_t>& shape) {
  std::string text = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}",
                                 description, fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
  constexpr std::size_t kBefore = 10;
  const std::size_t used = kBefore + text.size() + 1;
  text.append((kNumbersAlign - used % kNumbersAlign) % kNumbersAlign, ' ');
  text += '\n';
  return ZipFields()
      .add(std::string("\x93NUMPY\x01", 7))
      .add('\0')
      .add(static_cast<std::uint16_t>(text.size()))
      .add(text)
      .text();
}

// The code points of a text, as numpy keeps them.
std::u32string toCodePoints(const std::string& text) {
  std::u32string points;
  for (const char letter : toValidUtf8(text)) {
    const auto byte = static_cast<unsigned char>(letter);
    if ((byte & 0xc0u) == 0x80u) {
      points.back() = (points.back() << 6u) | (byte & 0x3fu);
    } else {
      const unsigned kept = byte < 0x80 ? 0x7f : byte < 0xe0 ? 0x1f : byte < 0xf0 ? 0x0f : 0x07;
      points.push_back(byte & kept);
    }
  }
  return points;
}

std::string_view asText(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

Result<NpzWriter> NpzWriter::create(const std::string& path) {
  Fd fd(open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (!fd) return systemError("write " + path);
  return NpzWriter(path, std::move(fd));
}

Status NpzWriter::put(std::string_view bytes) {
  if (auto wrote = writeAll(fd_.get(), bytes); !wrote) {
    return std::move(wrote).error().during("write " + path_);
  }
  offset_ += bytes.size();
  return {};
}

Status NpzWriter::beginMember(ZipMember member) {
  if (auto ended = endMember(); !ended) return ended;
  if (member.name.size() > 0xffff - kNumbersAlign) {
    return Error(Code::kInvalid, "write " + path_ + ": the name of an array is too long");
  }
  member.header_offset = offset_;
  members_.push_back(member);
  return put(localHeader(member));
}

Status NpzWriter::beginArray(const std::string& name, const std::string& type, std::size_t bytes,
                             const std::vector<std::int64_t>& shape) {
  const std::string head = npyHead(type, shape);
  const std::uint64_t size = head.size() + bytes;
  if (auto begun = beginMember({.name = name + ".npy", .size = size, .packed_size = size});
      !begun) {
    return begun;
  }
  open_ = true;
  left_ = size;
  return write(std::as_bytes(std::span(head)));
}

Status NpzWriter::begin(const std::string& name, DType type,
                        const std::vector<std::int64_t>& shape) {
  const auto bytes = checkedBytes(type, shape);
  if (!bytes || type == DType::kBF16) {
    return Error(Code::kInvalid,
                 fmt::format("write {}: numpy has no such array of {}", path_, dtypeName(type)));
  }
  return beginArray(name, descriptionOf(type), *bytes, shape);
}

Status NpzWriter::addTexts(const std::string& name, const std::vector<std::string>& texts) {
  std::vector<std::u32string> wide;
  std::size_t longest = 1;
  for (const std::string& text : texts) {
    wide.push_back(toCodePoints(text));
    longest = std::max(longest, wide.back().size());
  }
  std::u32string all;
  for (std::u32string& text : wide) {
    text.resize(longest);
    all += text;
  }
  const auto count = static_cast<std::int64_t>(texts.size());
  auto begun =
      beginArray(name, fmt::format("<U{}", longest), all.size() * sizeof(char32_t), {count});
  return begun ? write(std::as_bytes(std::span(all))) : begun;
}

Status NpzWriter::write(std::span<const std::byte> bytes) {
  if (!open_ || bytes.size() > left_) {
    return Error(Code::kInvalid, "write " + path_ + ": an array has more bytes than its shape");
  }
  members_.back().crc = crc32Of(bytes, members_.back().crc);
  left_ -= bytes.size();
  return put(asText(bytes));
}

Status NpzWriter::writeAt(std::uint64_t at, std::span<const std::byte> bytes) const {
  if (!open_ || at > left_ || bytes.size() > left_ - at) {
    return Error(Code::kInvalid, "write " + path_ + ": an array has more bytes than its shape");
  }
  std::uint64_t to = offset_ + at;
  while (!bytes.empty()) {
    const ssize_t wrote = pwrite(fd_.get(), bytes.data(), bytes.size(), static_cast<off_t>(to));
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return systemError("write " + path_);
    bytes = bytes.subspan(static_cast<std::size_t>(wrote));
    to += static_cast<std::uint64_t>(wrote);
  }
  return {};
}

Status NpzWriter::endNumbers(std::uint32_t crc) {
  ZipMember& member = members_.back();
  member.crc = joinCrc32(member.crc, crc, left_);
  offset_ += left_;
  left_ = 0;
  if (lseek(fd_.get(), static_cast<off_t>(offset_), SEEK_SET) < 0) {
    return systemError("write " + path_);
  }
  return {};
}

Status NpzWriter::addPacked(const ZipMember& member, std::span<const std::byte> packed) {
  auto begun = beginMember(member);
  return begun ? put(asText(packed)) : begun;
}

Status NpzWriter::endMember() {
  if (!open_) return {};
  if (left_ > 0) {
    return Error(Code::kInvalid, "write " + path_ + ": an array has fewer bytes than its shape");
  }
  open_ = false;
  const ZipMember& member = members_.back();
  const auto at = static_cast<off_t>(member.header_offset + kZipLocalCrc);
  if (pwrite(fd_.get(), &member.crc, sizeof member.crc, at) != sizeof member.crc) {
    return systemError("write " + path_);
  }
  return {};
}

Status NpzWriter::finish() {
  if (auto ended = endMember(); !ended) return ended;
  const std::uint64_t begin = offset_;
  std::string directory;
  for (const ZipMember& member : members_) directory += centralHeader(member);
  directory += endOfDirectory(begin, directory.size(), members_.size());
  if (auto wrote = put(directory); !wrote) return wrote;
  if (fsync(fd_.get()) != 0) return systemError("write " + path_ + ": sync");
  fd_.reset();
  return {};
}

}  // namespace dure::format
