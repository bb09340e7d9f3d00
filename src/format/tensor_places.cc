#include "format/tensor_places.h"

#include <algorithm>

#include <fmt/core.h>

#include "format/safetensors_parse.h"

namespace dure::format {

std::int64_t TensorPlace::elements() const {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  return count;
}

std::uint64_t TensorPlace::bytes() const {
  return static_cast<std::uint64_t>(elements()) * sizeOf(dtype);
}

std::pair<std::string, std::string> splitDottedName(const std::string& name) {
  const std::size_t dot = name.rfind('.');
  if (dot == std::string::npos) return {"", name};
  return {name.substr(0, dot), name.substr(dot + 1)};
}

Status checkTensors(const FileBytes& file, ModelTensors& found) {
  for (const TensorPlace& tensor : found.tensors) {
    const auto bytes = checkedBytes(tensor.dtype, tensor.shape);
    if (!bytes) return Error(Code::kInvalid, file.name + ": " + tensor.name + " is too large");
    if (tensor.packed) continue;
    if (tensor.offset > file.size() || *bytes > file.size() - tensor.offset) {
      return Error(Code::kInvalid,
                   fmt::format("{}: {} has {} bytes from offset {} on, but the file has {}: it was "
                               "cut short",
                               file.name, tensor.name, *bytes, tensor.offset, file.size()));
    }
  }
  const auto order = [](const TensorPlace& tensor) {
    return tensor.packed ? std::uint64_t{0} : tensor.offset + 1;
  };
  std::stable_sort(found.tensors.begin(), found.tensors.end(),
                   [&](const auto& a, const auto& b) { return order(a) < order(b); });
  const TensorPlace* before = nullptr;
  for (const TensorPlace& tensor : found.tensors) {
    if (tensor.packed || tensor.bytes() == 0) continue;
    if (before != nullptr && before->offset + before->bytes() > tensor.offset) {
      return Error(Code::kInvalid, fmt::format("{}: {} and {} lie in the same place: it is damaged",
                                               file.name, before->name, tensor.name));
    }
    before = &tensor;
  }
  return {};
}

Result<ModelTensors> findSafetensorsTensors(const FileBytes& file) {
  auto content = placeSafetensors(file);
  if (!content) return std::move(content).error();
  ModelTensors found{.tensors = {}, .texts = std::move(content->metadata), .checksummed = {}};
  for (PlacedArray& array : content->arrays) {
    const auto [group, leaf] = splitDottedName(array.name);
    found.tensors.push_back({.name = array.name,
                             .key = array.name,
                             .group = group,
                             .leaf = leaf,
                             .dtype = array.dtype,
                             .shape = std::move(array.shape),
                             .strides = {},
                             .offset = array.offset});
  }
  if (auto sound = checkTensors(file, found); !sound) return std::move(sound).error();
  return found;
}

Result<ModelTensors> findTensors(const FileBytes& file) {
  if (file.name.ends_with(".h5") || file.name.ends_with(".hdf5")) return findKerasTensors(file);
  if (file.name.ends_with(".safetensors")) return findSafetensorsTensors(file);
  if (file.name.ends_with(".pt") || file.name.ends_with(".pth")) return findTorchTensors(file);
  return Error(Code::kInvalid,
               file.name + ": its name must end in .h5, .safetensors or .pt to be a model");
}

}  // namespace dure::format
