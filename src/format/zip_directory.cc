#include "format/zip_directory.h"

#include <algorithm>
#include <cstring>
#include <set>

#include <fmt/core.h>

#include "format/zip_records.h"

namespace dure::format {
namespace {

// A record of fixed fields, already known to be within the file.
class Record {
 public:
  explicit Record(std::span<const std::byte> bytes) : bytes_(bytes) {}
  std::uint16_t u16(std::size_t at) const { return get<std::uint16_t>(at); }
  std::uint32_t u32(std::size_t at) const { return get<std::uint32_t>(at); }
  std::uint64_t u64(std::size_t at) const { return get<std::uint64_t>(at); }

 private:
  template <typename T>
  T get(std::size_t at) const {
    T value;
    std::memcpy(&value, bytes_.subspan(at, sizeof value).data(), sizeof value);
    return value;
  }
  std::span<const std::byte> bytes_;
};

Result<Record> recordAt(const FileBytes& file, std::uint64_t offset, std::size_t size,
                        std::uint32_t signature, const char* what) {
  Cursor cursor(file, offset);
  const auto bytes = cursor.take(size, what);
  if (!bytes) return bytes.error();
  const Record record(*bytes);
  if (record.u32(0) != signature) return damaged(file, offset, fmt::format("no {} here", what));
  return record;
}

struct Directory {
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  std::uint64_t count = 0;
};

Result<Directory> findDirectory(const FileBytes& file) {
  if (file.size() < kZipEndSize) return damaged(file, 0, "the file is too short for a zip file");
  // The end record is last but for a comment of up to 65535 bytes.
  const std::size_t last = file.size() - kZipEndSize;
  const std::size_t first = last > 0xffff ? last - 0xffff : 0;
  for (std::size_t at = last + 1; at-- > first;) {
    const Record end(file.bytes.subspan(at, kZipEndSize));
    if (end.u32(0) != kZipEnd || end.u16(20) != file.size() - at - kZipEndSize) continue;
    Directory found{.offset = end.u32(16), .size = end.u32(12), .count = end.u16(10)};
    if (found.offset != kZipElsewhere && found.size != kZipElsewhere && found.count != 0xffff) {
      return found;
    }
    if (at < kZipLocatorSize) return found;
    const Record locator(file.bytes.subspan(at - kZipLocatorSize, kZipLocatorSize));
    if (locator.u32(0) != kZipLocator) return found;
    const auto end64 =
        recordAt(file, locator.u64(8), kZipEnd64Size, kZipEnd64, "zip64 end of the directory");
    if (!end64) return end64.error();
    return Directory{.offset = end64->u64(48), .size = end64->u64(40), .count = end64->u64(32)};
  }
  return damaged(file, file.size(), "the zip file's directory is missing: the file was cut short");
}

// Sizes that do not fit 32 bits stand in an extra field, in this order, each only if needed.
Status readZip64(const FileBytes& file, std::size_t offset, std::span<const std::byte> extra,
                 ZipMember& member) {
  std::size_t at = 0;
  while (extra.size() - at >= 4) {
    const Record head(extra.subspan(at, 4));
    const std::size_t size = head.u16(2);
    if (size > extra.size() - at - 4) break;
    if (head.u16(0) == kZip64Field) {
      const Record field(extra.subspan(at + 4, size));
      std::size_t inside = 0;
      for (std::uint64_t* value : {&member.size, &member.packed_size, &member.header_offset}) {
        if (*value != kZipElsewhere) continue;
        if (size - inside < 8) return damaged(file, offset, "a zip64 field is too short");
        *value = field.u64(inside);
        inside += 8;
      }
      return {};
    }
    at += 4 + size;
  }
  return {};
}

// Reads the entry at the cursor and moves on to the next.
Result<ZipMember> readEntry(const FileBytes& file, Cursor& cursor) {
  const std::size_t offset = cursor.offset();
  const auto bytes = cursor.take(kZipCentralSize, "an entry of the zip file's directory");
  if (!bytes) return bytes.error();
  const Record entry(*bytes);
  if (entry.u32(0) != kZipCentral) return damaged(file, offset, "no entry of the directory here");
  const auto name = cursor.take(entry.u16(28), "a name in the zip file's directory");
  if (!name) return name.error();
  const auto extra = cursor.take(entry.u16(30), "an entry of the zip file's directory");
  if (!extra) return extra.error();
  if (const auto comment = cursor.take(entry.u16(32), "a comment"); !comment) {
    return comment.error();
  }
  ZipMember member{.name = {reinterpret_cast<const char*>(name->data()), name->size()},
                   .deflated = entry.u16(10) == 8,
                   .crc = entry.u32(16),
                   .size = entry.u32(24),
                   .packed_size = entry.u32(20),
                   .header_offset = entry.u32(42),
                   .entry_offset = offset};
  if (auto wide = readZip64(file, offset, *extra, member); !wide) return std::move(wide).error();
  if ((entry.u16(8) & 1u) != 0) return damaged(file, offset, member.name + " is encrypted");
  if (entry.u16(10) != 0 && entry.u16(10) != 8) {
    return damaged(file, offset,
                   fmt::format("{} is packed in way {}; only stored and deflated members are read",
                               member.name, entry.u16(10)));
  }
  if (!member.deflated && member.size != member.packed_size) {
    return damaged(file, offset, member.name + " is stored but has two sizes");
  }
  return member;
}

}  // namespace

Result<std::vector<ZipMember>> readZipDirectory(const FileBytes& file) {
  const auto directory = findDirectory(file);
  if (!directory) return directory.error();
  if (directory->count > directory->size / kZipCentralSize) {
    return damaged(file, directory->offset,
                   fmt::format("a directory of {} bytes cannot have {} entries", directory->size,
                               directory->count));
  }
  std::vector<ZipMember> members;
  std::set<std::string> names;
  Cursor cursor(file, directory->offset);
  for (std::uint64_t i = 0; i < directory->count; ++i) {
    const std::size_t offset = cursor.offset();
    auto member = readEntry(file, cursor);
    if (!member) return std::move(member).error();
    if (!names.insert(member->name).second) {
      return damaged(file, offset, member->name + " is there twice");
    }
    members.push_back(*std::move(member));
  }
  return members;
}

Result<std::array<std::uint64_t, 2>> checksumPlaces(const FileBytes& file,
                                                    const ZipMember& member) {
  const auto packed = packedBytes(file, member);
  if (!packed) return packed.error();
  const auto local = recordAt(file, member.header_offset, kZipLocalSize, kZipLocal, "zip member");
  if (!local) return local.error();
  std::uint64_t at = member.header_offset + kZipLocalCrc;
  constexpr std::uint16_t kDescribedBehind = 1u << 3u;
  if ((local->u16(6) & kDescribedBehind) != 0) {
    at = static_cast<std::uint64_t>(packed->bytes.data() - file.bytes.data()) + packed->size();
    Cursor behind(file, at);
    const auto first = behind.little<std::uint32_t>("what follows a zip member");
    if (!first) return first.error();
    if (*first == kZipDescriptor) at += sizeof(std::uint32_t);
  }
  Cursor cursor(file, at);
  const auto written = cursor.little<std::uint32_t>("the checksum of a zip member");
  if (!written) return written.error();
  if (*written != member.crc) return damaged(file, at, member.name + " has two checksums");
  return std::array<std::uint64_t, 2>{at, member.entry_offset + kZipCentralCrc};
}

Result<std::string_view> entryBytes(const FileBytes& file, const ZipMember& member) {
  const char* const what = "an entry of the zip file's directory";
  const auto entry = recordAt(file, member.entry_offset, kZipCentralSize, kZipCentral, what);
  if (!entry) return entry.error();
  Cursor cursor(file, member.entry_offset);
  const std::size_t behind = std::size_t{entry->u16(28)} + entry->u16(30) + entry->u16(32);
  const auto bytes = cursor.take(kZipCentralSize + behind, what);
  if (!bytes) return bytes.error();
  return std::string_view(reinterpret_cast<const char*>(bytes->data()), bytes->size());
}

Result<FileBytes> packedBytes(const FileBytes& file, const ZipMember& member) {
  const auto local = recordAt(file, member.header_offset, kZipLocalSize, kZipLocal, "zip member");
  if (!local) return local.error();
  Cursor cursor(file, member.header_offset + kZipLocalSize);
  const std::size_t names = std::size_t{local->u16(26)} + local->u16(28);
  if (const auto skipped = cursor.take(names, "the name of a zip member"); !skipped) {
    return skipped.error();
  }
  const auto bytes = cursor.take(member.packed_size, member.name);
  if (!bytes) return bytes.error();
  return FileBytes{.name = file.name + ": " + member.name, .bytes = *bytes, .owner = file.owner};
}

}  // namespace dure::format
