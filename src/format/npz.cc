#include "format/npz.h"

#include <fmt/core.h>

#include "base/text.h"
#include "format/crc32.h"
#include "format/inflate.h"
#include "format/npy.h"

namespace dure::format {
namespace {

std::string arrayName(const ZipMember& member) {
  const std::string& name = member.name;
  return name.ends_with(".npy") ? name.substr(0, name.size() - 4) : name;
}

Result<FileBytes> unpack(const FileBytes& packed, const ZipMember& member) {
  auto unpacked = inflateAll(
      packed, Packing::kRaw, packed.name, [&](const FileBytes& head) -> Result<std::size_t> {
        const auto header = readNpyHeader(head);
        if (!header) return header.error();
        const std::size_t size = header->data_offset + header->data_bytes;
        if (size == member.size) return size;
        return damaged(
            head, header->data_offset,
            fmt::format("the header says {} bytes but the member has {}", size, member.size));
      });
  if (!unpacked) return unpacked;
  if (crc32Of(unpacked->bytes) != member.crc) {
    return Error(Code::kInvalid, packed.name + ": the checksum is wrong: the file is damaged");
  }
  return unpacked;
}

}  // namespace

Result<Npz> Npz::open(FileBytes file) {
  auto members = readZipDirectory(file);
  if (!members) return std::move(members).error();
  return Npz(std::move(file), *std::move(members));
}

std::vector<std::string> Npz::names() const {
  std::vector<std::string> names;
  names.reserve(members_.size());
  for (const ZipMember& member : members_) names.push_back(arrayName(member));
  return names;
}

Result<Array> Npz::read(const std::string& name) const {
  for (const ZipMember& member : members_) {
    if (arrayName(member) != name) continue;
    const auto packed = packedBytes(file_, member);
    if (!packed) return packed.error();
    // The checksum of a stored array is not looked at: that would read all of it.
    if (!member.deflated) return readNpy(*packed);
    const auto unpacked = unpack(*packed, member);
    if (!unpacked) return unpacked.error();
    return readNpy(*unpacked);
  }
  return Error(Code::kNotFound, fmt::format("{}: no array '{}'; there is {}", file_.name, name,
                                            join(names(), ", ")));
}

}  // namespace dure::format
