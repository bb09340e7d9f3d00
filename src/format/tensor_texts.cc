#include "format/tensor_texts.h"

#include <algorithm>

#include <fmt/core.h>

#include "format/crc32.h"
#include "format/hdf5.h"
#include "format/safetensors_parse.h"
#include "format/sandbox.h"
#include "format/zip_headers.h"

namespace dure::format {
namespace {

constexpr const char* kExtras = "/extra/dure/";

// The archive's name stands in front of those of all members.
std::string archiveOf(const std::vector<ZipMember>& members) {
  return members.empty() ? "" : members[0].name.substr(0, members[0].name.find('/'));
}

// The directory goes last, so new members and a new directory take the place of the old one. The
// bytes of members that are not in it any more stay, where nobody looks.
Result<FileEdit> editTorchTexts(const FileBytes& file, const TextChanges& changes) {
  const auto members = readZipDirectory(file);
  if (!members) return members.error();
  const std::string folder = archiveOf(*members) + kExtras;
  FileEdit edit{.begin = file.size(), .end = file.size(), .bytes = {}};
  std::string directory;
  std::uint64_t count = 0;
  for (const ZipMember& member : *members) edit.begin = std::min(edit.begin, member.entry_offset);
  for (const ZipMember& member : *members) {
    if (member.header_offset >= edit.begin) {
      return damaged(file, member.header_offset, member.name + " lies behind the directory");
    }
    const bool extra = member.name.starts_with(folder);
    if (extra && changes.count(member.name.substr(folder.size())) > 0) continue;
    const auto entry = entryBytes(file, member);
    if (!entry) return entry.error();
    directory += *entry;
    ++count;
  }
  for (const auto& [name, text] : changes) {
    if (!text) continue;
    const ZipMember member{.name = folder + name,
                           .crc = crc32Of(std::as_bytes(std::span(text->data(), text->size()))),
                           .size = text->size(),
                           .packed_size = text->size(),
                           .header_offset = edit.begin + edit.bytes.size()};
    edit.bytes += localHeader(member) + *text;
    directory += centralHeader(member);
    ++count;
  }
  const std::uint64_t offset = edit.begin + edit.bytes.size();
  edit.bytes += directory + endOfDirectory(offset, directory.size(), count);
  return edit;
}

}  // namespace

Result<FileEdit> editTexts(const FileBytes& file, const TextChanges& changes) {
  if (!file.name.ends_with(".safetensors")) return editTorchTexts(file, changes);
  auto header = changedHeader(file, changes);
  if (!header) return std::move(header).error();
  return FileEdit{.begin = 0, .end = header->second, .bytes = std::move(header->first)};
}

Status rewriteKerasTexts(const std::string& path, const TextChanges& changes) {
  const auto lock = lockHdf5();
  const auto made = makeInSandbox(path, [&](int) -> Status {
    H5Id file(H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT), H5Fclose);
    if (!file) return hdf5Error(path);
    for (const auto& [name, text] : changes) {
      if (hasAttribute(file.get(), name) && H5Adelete(file.get(), name.c_str()) < 0) {
        return hdf5Error(path + ": " + name);
      }
      if (!text) continue;
      if (auto wrote = writeText(file.get(), name, *text); !wrote) return wrote;
    }
    return file.reset() < 0 ? Status(hdf5Error(path)) : Status();
  });
  if (!made) return Error(Code::kIo, "write " + made.error().message());
  return {};
}

}  // namespace dure::format
