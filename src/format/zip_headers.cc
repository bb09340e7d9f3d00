#include "format/zip_headers.h"

namespace dure::format {
namespace {

constexpr std::uint16_t kAlignField = 0xd935;  // padding, which every reader passes over
constexpr std::uint16_t kFieldHead = 4;
constexpr std::uint16_t kStoredVersion = 20;
constexpr std::uint16_t kZip64Version = 45;
constexpr std::uint16_t kUtf8Names = 1u << 11u;
constexpr std::uint32_t kFirstOf1980 = 0x00210000;

std::uint32_t narrow(std::uint64_t value) {
  return value < kZipElsewhere ? static_cast<std::uint32_t>(value) : kZipElsewhere;
}

// What both kinds of header say in the same order.
void addCommon(ZipFields& fields, const ZipMember& member, bool wide) {
  fields.add<std::uint16_t>(wide ? kZip64Version : kStoredVersion)
      .add<std::uint16_t>(kUtf8Names)
      .add<std::uint16_t>(member.deflated ? 8 : 0)
      .add<std::uint32_t>(kFirstOf1980)
      .add<std::uint32_t>(member.crc)
      .add<std::uint32_t>(narrow(member.packed_size))
      .add<std::uint32_t>(narrow(member.size))
      .add<std::uint16_t>(static_cast<std::uint16_t>(member.name.size()));
}

bool needsZip64(const ZipMember& member) {
  return member.size >= kZipElsewhere || member.packed_size >= kZipElsewhere;
}

}  // namespace

// Both sizes, or none, so that this header does not change its length with one of them.
std::string localHeader(ZipMember member) {
  const bool wide = needsZip64(member);
  ZipFields extra;
  if (wide) {
    extra.add<std::uint16_t>(kZip64Field)
        .add<std::uint16_t>(16)
        .add(member.size)
        .add(member.packed_size);
    member.size = member.packed_size = kZipElsewhere;
  }
  const std::size_t used = member.header_offset + kZipLocalSize + member.name.size() +
                           extra.text().size() + kFieldHead + sizeof(std::uint16_t);
  const std::size_t padding = (kZipAlign - used % kZipAlign) % kZipAlign;
  extra.add<std::uint16_t>(kAlignField)
      .add(static_cast<std::uint16_t>(padding + sizeof(std::uint16_t)))
      .add(static_cast<std::uint16_t>(kZipAlign))
      .add(std::string(padding, '\0'));
  ZipFields header;
  header.add<std::uint32_t>(kZipLocal);
  addCommon(header, member, wide);
  header.add(static_cast<std::uint16_t>(extra.text().size())).add(member.name).add(extra.text());
  return header.text();
}

std::string centralHeader(const ZipMember& member) {
  ZipFields wide;
  for (const std::uint64_t value : {member.size, member.packed_size, member.header_offset}) {
    if (value >= kZipElsewhere) wide.add(value);
  }
  ZipFields extra;
  const bool has_wide = !wide.text().empty();
  if (has_wide) {
    extra.add<std::uint16_t>(kZip64Field)
        .add(static_cast<std::uint16_t>(wide.text().size()))
        .add(wide.text());
  }
  constexpr std::uint16_t kMadeOnUnix = 3u << 8u;
  constexpr std::uint32_t kReadableFile = 0100644u << 16u;
  ZipFields header;
  header.add<std::uint32_t>(kZipCentral).add<std::uint16_t>(kMadeOnUnix | kZip64Version);
  addCommon(header, member, has_wide);
  header.add(static_cast<std::uint16_t>(extra.text().size()))
      .add<std::uint16_t>(0)  // comment
      .add<std::uint16_t>(0)  // disk
      .add<std::uint16_t>(0)  // internal attributes
      .add<std::uint32_t>(kReadableFile)
      .add<std::uint32_t>(narrow(member.header_offset))
      .add(member.name)
      .add(extra.text());
  return header.text();
}

std::string endOfDirectory(std::uint64_t offset, std::uint64_t size, std::uint64_t count) {
  ZipFields end;
  const bool wide = offset >= kZipElsewhere || size >= kZipElsewhere || count >= 0xffff;
  if (wide) {
    end.add<std::uint32_t>(kZipEnd64)
        .add<std::uint64_t>(kZipEnd64Size - 12)
        .add<std::uint16_t>(kZip64Version)
        .add<std::uint16_t>(kZip64Version)
        .add<std::uint32_t>(0)
        .add<std::uint32_t>(0)
        .add(count)
        .add(count)
        .add(size)
        .add(offset);
    end.add<std::uint32_t>(kZipLocator)
        .add<std::uint32_t>(0)
        .add(offset + size)
        .add<std::uint32_t>(1);
  }
  const auto few = static_cast<std::uint16_t>(count < 0xffff ? count : 0xffff);
  end.add<std::uint32_t>(kZipEnd)
      .add<std::uint16_t>(0)
      .add<std::uint16_t>(0)
      .add(few)
      .add(few)
      .add(narrow(size))
      .add(wide ? kZipElsewhere : narrow(offset))
      .add<std::uint16_t>(0);
  return end.text();
}

}  // namespace dure::format
