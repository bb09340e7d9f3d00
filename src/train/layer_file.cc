#include <filesystem>

#include <fmt/core.h>

#include "base/files.h"
#include "format/keras_config.h"
#include "format/keras_parse.h"
#include "train/model_files.h"

namespace dure::train {
namespace {

Result<LayerFile> fromKerasFile(const std::string& path, const format::KerasModel& file) {
  auto architecture = fromKeras(file);
  if (!architecture) return std::move(architecture).error().during(path);
  LayerFile read{.architecture = std::move(*architecture), .weights = {}, .about = {}};
  read.weights = weightsFromKeras(file, read.architecture);
  read.about.readMetadata(file.attributes);
  read.about.word_lines = file.words;
  return read;
}

// The configuration that lies beside weights: model.json for model.safetensors, or config.json.
std::string configBeside(const std::string& path) {
  const std::filesystem::path file(path);
  for (const auto& candidate : {std::filesystem::path(file).replace_extension(".json"),
                                file.parent_path() / "config.json"}) {
    if (fileExists(candidate)) return candidate;
  }
  return "";
}

}  // namespace

std::string describeLayers(const Architecture& architecture, const Parameters& parameters,
                           const ModelAbout& about) {
  return format::kerasConfig(toKeras(architecture, parameters, about)).dump();
}

Result<LayerFile> readLayerTensors(const std::string& path) {
  auto content = format::readSafetensors(path);
  if (!content) return std::move(content).error();
  const auto described = content->metadata.find(kArchitecture);
  Result<format::KerasModel> model = [&]() -> Result<format::KerasModel> {
    if (described != content->metadata.end()) {
      const std::string& text = described->second;
      return format::parseKeras({.name = path,
                                 .bytes = std::as_bytes(std::span(text.data(), text.size())),
                                 .owner = nullptr});
    }
    const std::string config = configBeside(path);
    if (!config.empty()) return format::readKeras(config);
    return Error(
        Code::kInvalid,
        fmt::format("{}: nothing says what the layers are: put the Keras configuration "
                    "(model.to_json()) beside it, as {}",
                    path,
                    std::filesystem::path(path).replace_extension(".json").filename().string()));
  }();
  if (!model) return std::move(model).error();
  auto read = fromKerasFile(path, *model);
  if (!read) return read;
  read->weights = std::move(content->arrays);
  read->about.readMetadata(content->metadata);
  return read;
}

Result<std::optional<LayerFile>> readLayerFile(const std::string& path) {
  if (path.ends_with(".pt")) return readLayerScript(path);
  if (path.ends_with(".safetensors")) {
    auto read = readLayerTensors(path);
    if (!read) return std::move(read).error();
    return std::optional(*std::move(read));
  }
  auto file = format::readKeras(path);
  if (!file) return std::move(file).error();
  auto read = fromKerasFile(path, *file);
  if (!read) return std::move(read).error();
  return std::optional(*std::move(read));
}

}  // namespace dure::train
