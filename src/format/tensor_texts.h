#pragma once

#include <map>
#include <optional>
#include <string>

#include "base/result.h"
#include "format/mapped_file.h"

// What a file of tensors (tensor_places.h) says of its model besides them, and how to say something
// else.
namespace dure::format {

// By their names in ModelTensors::texts; nothing for what is no longer to be said.
using TextChanges = std::map<std::string, std::optional<std::string>>;

// A part of a file, and what takes its place. No tensor lies in it; those behind it move on.
struct FileEdit {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::string bytes;
};

// What makes a .safetensors or a .pt file of TorchScript say it. Invalid for damaged files.
Result<FileEdit> editTexts(const FileBytes& file, const TextChanges& changes);

// Changes the .h5 file at `path`, where tensors stay where they are. In a process of its own, as by
// readKeras.
Status rewriteKerasTexts(const std::string& path, const TextChanges& changes);

}  // namespace dure::format
