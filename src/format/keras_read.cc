#include <algorithm>
#include <map>
#include <new>
#include <set>

#include <fmt/core.h>

#include "base/text.h"
#include "format/hdf5.h"
#include "format/json_text.h"
#include "format/keras.h"
#include "format/keras_config.h"
#include "format/keras_parse.h"
#include "format/mapped_file.h"
#include "format/safetensors_parse.h"
#include "format/sandbox.h"

namespace dure::format {
namespace {

using nlohmann::json;

constexpr std::size_t kLongestName = 255;
constexpr hsize_t kMostAttributes = 256;
// Of attributes, where one process hands a model to another.
constexpr const char* kAttributePrefix = "attribute.";

// "dense/kernel:0" and "lstm/lstm_cell/kernel:0" are kernels.
std::string weightName(const std::string& full) {
  std::string name = full.substr(full.rfind('/') + 1);
  const std::size_t colon = name.rfind(':');
  return colon == std::string::npos ? name : name.substr(0, colon);
}

// A list of names; those that would not fit one attribute are spread over name0, name1, …
Result<std::vector<std::string>> readNames(hid_t group, const std::string& name,
                                           std::size_t limit) {
  if (hasAttribute(group, name)) return readTexts(group, name, limit);
  std::vector<std::string> names;
  for (int chunk = 0; hasAttribute(group, name + std::to_string(chunk)); ++chunk) {
    const auto part = readTexts(group, name + std::to_string(chunk), limit);
    if (!part) return part.error();
    names.insert(names.end(), part->begin(), part->end());
  }
  return names;
}

Result<json> readJson(hid_t file, const std::string& path, const std::string& name,
                      std::size_t limit) {
  const auto texts = readTexts(file, name, limit);
  if (!texts) return Error(texts.error()).during(path);
  if (texts->size() != 1) return Error(Code::kInvalid, path + ": " + name + " is not one text");
  return parseJson(path + ": " + name, texts->front());
}

// `left` is what all weights together may still take.
Status readWeights(hid_t weights, std::size_t limit, KerasLayer& layer, std::size_t& left) {
  const H5Id group(H5Gopen2(weights, layer.name.c_str(), H5P_DEFAULT), H5Gclose);
  if (!group) return hdf5Error(layer.name);
  const auto names = readNames(group.get(), "weight_names", limit);
  if (!names) return Error(names.error()).during(layer.name);
  for (const std::string& name : *names) {
    auto array = readDataset(group.get(), name, limit);
    if (!array) return std::move(array).error().during(layer.name);
    if (array->bytes() > left) {
      return Error(Code::kInvalid, layer.name + ": the weights are larger than the file");
    }
    left -= array->bytes();
    layer.weights.emplace_back(weightName(name), *std::move(array));
  }
  return {};
}

// What stands beside Keras' own attributes; others than texts are passed over.
std::map<std::string, std::string> readAttributes(hid_t file, std::size_t limit) {
  static const std::set<std::string> keras{"model_config", "training_config", "keras_version",
                                           "backend"};
  std::map<std::string, std::string> texts;
  char name[kLongestName + 1];
  for (hsize_t i = 0; i < kMostAttributes; ++i) {
    const ssize_t length = H5Aget_name_by_idx(file, ".", H5_INDEX_NAME, H5_ITER_INC, i, name,
                                              sizeof name, H5P_DEFAULT);
    if (length < 0) break;
    if (length == 0 || static_cast<std::size_t>(length) > kLongestName || keras.count(name) > 0)
      continue;
    const auto read = readTexts(file, name, limit);
    if (read && read->size() == 1) texts[name] = read->front();
  }
  return texts;
}

// The table of words, if there is one.
Result<std::string> readWords(hid_t file, std::size_t limit) {
  if (H5Lexists(file, "dure", H5P_DEFAULT) <= 0 || H5Lexists(file, kWordsPath, H5P_DEFAULT) <= 0)
    return std::string();
  const auto bytes = readDataset(file, kWordsPath, limit);
  if (!bytes) return bytes.error();
  if (bytes->dtype != DType::kU8) return Error(Code::kInvalid, "dure/words is not text");
  return std::string(reinterpret_cast<const char*>(bytes->data), bytes->bytes());
}

// The caller holds lockHdf5().
Result<KerasModel> readHdf5(const FileBytes& bytes) {
  const std::string& path = bytes.name;
  const std::size_t size = bytes.size();
  const H5Id file = openHdf5(bytes.bytes);
  if (!file) return hdf5Error(path);
  if (!hasAttribute(file.get(), "model_config")) {
    return Error(Code::kInvalid,
                 path + ": there is no model_config: the file has weights but no architecture");
  }
  const auto config = readJson(file.get(), path, "model_config", size);
  if (!config) return config.error();
  auto model = parseKerasConfig(path + ": model_config", *config);
  if (!model) return model;
  if (hasAttribute(file.get(), "training_config")) {
    auto training = readJson(file.get(), path, "training_config", size);
    if (!training) return std::move(training).error();
    model->training_config = *std::move(training);
  }
  model->attributes = readAttributes(file.get(), size);
  auto words = readWords(file.get(), size);
  if (!words) return std::move(words).error().during(path);
  model->words = *std::move(words);
  if (H5Lexists(file.get(), "model_weights", H5P_DEFAULT) <= 0) return model;
  const H5Id weights(H5Gopen2(file.get(), "model_weights", H5P_DEFAULT), H5Gclose);
  if (!weights) return hdf5Error(path + ": model_weights");
  const auto names = readNames(weights.get(), "layer_names", size);
  if (!names) return Error(names.error()).during(path + ": model_weights");
  std::size_t left = size * 16;
  for (KerasLayer& layer : model->layers) {
    if (std::find(names->begin(), names->end(), layer.name) == names->end()) continue;
    if (auto read = readWeights(weights.get(), size, layer, left); !read) {
      return std::move(read).error().during(path + ": model_weights");
    }
  }
  return model;
}

// How one process hands a model to another: the weights as arrays with numbers for names, and in
// the metadata the architecture and whose they are.
Status handOver(int fd, const KerasModel& model) {
  Safetensors content;
  json owners = json::array();
  for (std::size_t layer = 0; layer < model.layers.size(); ++layer) {
    for (const auto& [name, array] : model.layers[layer].weights) {
      content.arrays.emplace_back(std::to_string(owners.size()), array);
      owners.push_back({layer, name});
    }
  }
  content.metadata = {{"config", kerasConfig(model).dump()},
                      {"training", model.training_config.dump()},
                      {"owners", owners.dump()},
                      {"words", toValidUtf8(model.words)}};
  for (const auto& [name, text] : model.attributes)
    content.metadata[kAttributePrefix + toValidUtf8(name)] = toValidUtf8(text);
  return writeSafetensorsTo(fd, content);
}

// The process at the other end may have been led astray by the file: nothing it says is trusted.
Result<KerasModel> takeOver(const FileBytes& bytes) {
  auto content = parseSafetensors(bytes);
  if (!content) return std::move(content).error();
  const auto part = [&](const char* name) {
    return parseJson(bytes.name, content->metadata[name]);
  };
  const auto config = part("config");
  const auto training = part("training");
  const auto owners = part("owners");
  if (!config || !training || !owners || !owners->is_array()) return damaged(bytes, 0, "no model");
  auto model = parseKerasConfig(bytes.name, *config);
  if (!model) return model;
  model->training_config = *training;
  model->words = content->metadata["words"];
  for (const auto& [name, text] : content->metadata) {
    if (name.starts_with(kAttributePrefix))
      model->attributes[name.substr(std::string_view(kAttributePrefix).size())] = text;
  }
  for (std::size_t i = 0; i < owners->size(); ++i) {
    const json& owner = (*owners)[i];
    const Array* const array = content->find(std::to_string(i));
    if (array == nullptr || !owner.is_array() || owner.size() != 2 ||
        !owner[0].is_number_unsigned() || owner[0].get<std::size_t>() >= model->layers.size() ||
        !owner[1].is_string()) {
      return damaged(bytes, 0, "a weight without a layer");
    }
    model->layers[owner[0].get<std::size_t>()].weights.emplace_back(owner[1].get<std::string>(),
                                                                    *array);
  }
  return model;
}

// In a process of its own, since libhdf5 reads and writes beyond its buffers in files that are
// damaged, or made to harm.
Result<KerasModel> readHdf5InSandbox(const FileBytes& file) {
  const auto lock = lockHdf5();
  const auto handed = makeInSandbox(file.name, [&](int fd) -> Status {
    const auto model = readHdf5(file);
    return model ? handOver(fd, *model) : Status(model.error());
  });
  if (!handed) return handed.error();
  return takeOver(*handed);
}

Result<KerasModel> parse(const FileBytes& file) {
  const std::string_view text = file.text();
  if (text.starts_with("\x89HDF\r\n\x1a\n")) return readHdf5InSandbox(file);
  if (text.starts_with("PK")) {
    return Error(Code::kInvalid, file.name +
                                     ": this is an archive as Keras 3 writes (.keras); save the "
                                     "model as .h5");
  }
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos || text[first] != '{') {
    return damaged(file, 0, "this is neither HDF5 nor JSON");
  }
  const auto config = parseJson(file.name, text);
  if (!config) return config.error();
  return parseKerasConfig(file.name, *config);
}

}  // namespace

Result<KerasModel> parseKeras(const FileBytes& file) {
  try {
    return parse(file);
  } catch (const std::bad_alloc&) {
    return Error(Code::kUnavailable, file.name + ": there is not enough memory to read it");
  } catch (const std::exception& error) {
    return Error(Code::kInvalid, file.name + ": " + error.what());
  }
}

Result<KerasModel> readKeras(const std::string& path) {
  const auto file = loadFile(path);
  if (!file) return file.error();
  return parseKeras(*file);
}

}  // namespace dure::format
