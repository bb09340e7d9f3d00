#include <algorithm>
#include <cstring>
#include <set>

#include <fmt/core.h>

#include "base/text.h"
#include "format/hdf5.h"
#include "format/keras.h"
#include "format/keras_config.h"
#include "format/new_file.h"

namespace dure::format {
namespace {

// The version whose layout this is.
constexpr const char* kKerasVersion = "2.11.0";
constexpr const char* kBackend = "tensorflow";
// What fits one attribute, as Keras counts it: HDF5's limit is 64 KB with the header.
constexpr std::size_t kMostOfAttribute = 64512;

// The names as Keras writes them: in one attribute, or, if they are too many, in name0, name1, …
Status writeNames(hid_t group, const std::string& name, const std::vector<std::string>& names) {
  std::size_t longest = 1;
  for (const std::string& text : names) longest = std::max(longest, text.size());
  if (longest > kMostOfAttribute) {
    return Error(Code::kInvalid, "a name is too long for an HDF5 attribute");
  }
  const std::size_t most = kMostOfAttribute / longest;
  if (names.size() <= most) return writeTexts(group, name, names);
  for (std::size_t first = 0, chunk = 0; first < names.size(); first += most, ++chunk) {
    const auto begin = names.begin() + static_cast<std::ptrdiff_t>(first);
    const auto end = begin + static_cast<std::ptrdiff_t>(std::min(most, names.size() - first));
    if (auto wrote = writeTexts(group, name + std::to_string(chunk), {begin, end}); !wrote) {
      return wrote;
    }
  }
  return {};
}

// Names become paths inside the file.
bool isPathName(const std::string& name) {
  const auto parts = split(name, '/');
  return name.find('\0') == std::string::npos &&
         std::none_of(parts.begin(), parts.end(),
                      [](const std::string& part) { return part.empty() || part == "."; });
}

Status checkNames(const KerasModel& model) {
  std::set<std::string> names;
  for (const KerasLayer& layer : model.layers) {
    if (!isPathName(layer.name)) {
      return Error(Code::kInvalid, fmt::format("'{}' is no name for a layer", layer.name));
    }
    if (!names.insert(layer.name).second) {
      return Error(Code::kInvalid, fmt::format("two layers are named '{}'", layer.name));
    }
    for (const auto& [name, array] : layer.weights) {
      if (!isPathName(name)) {
        return Error(Code::kInvalid, fmt::format("'{}' is no name for a weight", name));
      }
    }
  }
  return {};
}

Status writeLayer(hid_t weights, const KerasLayer& layer) {
  const H5Id links(H5Pcreate(H5P_LINK_CREATE), H5Pclose);
  H5Pset_create_intermediate_group(links.get(), 1);
  const H5Id group(H5Gcreate2(weights, layer.name.c_str(), links.get(), H5P_DEFAULT, H5P_DEFAULT),
                   H5Gclose);
  if (!group) return hdf5Error(layer.name);
  std::vector<std::string> names;
  for (const auto& [name, array] : layer.weights) {
    names.push_back(layer.name + "/" + name + ":0");
    if (auto wrote = writeDataset(group.get(), names.back(), array); !wrote) return wrote;
  }
  return writeNames(group.get(), "weight_names", names);
}

Status writeWeights(hid_t file, const KerasModel& model) {
  const H5Id weights(H5Gcreate2(file, "model_weights", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
                     H5Gclose);
  if (!weights) return hdf5Error("model_weights");
  std::vector<std::string> names;
  for (const KerasLayer& layer : model.layers) {
    // Keras does not count a Sequential model's input among its layers.
    if (layer.type == "InputLayer") continue;
    names.push_back(layer.name);
    if (auto wrote = writeLayer(weights.get(), layer); !wrote) return wrote;
  }
  if (auto wrote = writeNames(weights.get(), "layer_names", names); !wrote) return wrote;
  if (auto wrote = writeText(weights.get(), "backend", kBackend); !wrote) return wrote;
  return writeText(weights.get(), "keras_version", kKerasVersion);
}

// In a group of its own, where Keras does not look.
Status writeWords(hid_t file, const std::string& words) {
  Array bytes = makeArray(DType::kU8, {static_cast<std::int64_t>(words.size())});
  std::memcpy(writableData(bytes), words.data(), words.size());
  return writeDataset(file, kWordsPath, bytes);
}

// The bytes of the file. HDF5 makes them in memory and not on the disk, since it does not survive a
// disk that is full: closing a file that cannot be written brings the process down.
Result<std::string> makeHdf5(const KerasModel& model, const std::string& config) {
  const auto lock = lockHdf5();
  const H5Id access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
  constexpr std::size_t kGrowth = 1u << 20u;
  if (H5Pset_fapl_core(access.get(), kGrowth, false) < 0) {
    return hdf5Error("HDF5");
  }
  const H5Id file(H5Fcreate("model", H5F_ACC_TRUNC, H5P_DEFAULT, access.get()), H5Fclose);
  if (!file) return hdf5Error("HDF5");
  const auto write = [&]() -> Status {
    if (auto wrote = writeText(file.get(), "keras_version", kKerasVersion); !wrote) return wrote;
    if (auto wrote = writeText(file.get(), "backend", kBackend); !wrote) return wrote;
    if (auto wrote = writeText(file.get(), "model_config", config); !wrote) return wrote;
    if (!model.training_config.is_null()) {
      auto wrote = writeText(file.get(), "training_config", model.training_config.dump());
      if (!wrote) return wrote;
    }
    for (const auto& [name, text] : model.attributes) {
      if (auto wrote = writeText(file.get(), name, text); !wrote) return wrote;
    }
    if (!model.words.empty()) {
      if (auto wrote = writeWords(file.get(), model.words); !wrote) return wrote;
    }
    return writeWeights(file.get(), model);
  };
  if (auto wrote = write(); !wrote) return std::move(wrote).error();
  if (H5Fflush(file.get(), H5F_SCOPE_GLOBAL) < 0) return hdf5Error("HDF5");
  const ssize_t size = H5Fget_file_image(file.get(), nullptr, 0);
  if (size < 0) return hdf5Error("HDF5");
  std::string image(static_cast<std::size_t>(size), '\0');
  if (H5Fget_file_image(file.get(), image.data(), image.size()) != size) {
    return hdf5Error("HDF5");
  }
  return image;
}

Status write(const std::string& path, const KerasModel& model) {
  if (auto sound = checkNames(model); !sound)
    return std::move(sound).error().during("write " + path);
  const std::string config = kerasConfig(model).dump();
  const auto image = makeHdf5(model, config);
  if (!image) return Error(image.error()).during("write " + path);
  auto file = NewFile::create(path);
  if (!file) return std::move(file).error();
  if (auto wrote = file->write(*image); !wrote) return wrote;
  return file->keep();
}

}  // namespace

Status writeKeras(const std::string& path, const KerasModel& model) {
  try {
    return write(path, model);
  } catch (const std::exception& error) {
    return Error(Code::kInvalid, "write " + path + ": " + error.what());
  }
}

}  // namespace dure::format
