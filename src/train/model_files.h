#pragma once

#include <map>
#include <optional>
#include <string>

#include "base/result.h"
#include "format/keras.h"
#include "train/architecture.h"
#include "train/model_about.h"
#include "train/parameters.h"

namespace dure::train {

// Under which name files that hold texts have what the layers are.
inline constexpr const char* kArchitecture = "architecture";

// Writes a stack of layers as the file's ending says: .h5 for Keras, .pt as TorchScript,
// .safetensors for the weights alone. All of the file or none. `about` is written too where the
// format has room.
Status saveLayers(const std::string& path, const Architecture& architecture,
                  const Parameters& parameters, const ModelAbout& about);

// What the layers are, as Keras' model.to_json() says it.
std::string describeLayers(const Architecture& architecture, const Parameters& parameters,
                           const ModelAbout& about);

// As Keras describes and orders it, with the weights, and with the scaling as its first layer: it
// takes samples as the data has them.
format::KerasModel toKeras(const Architecture& architecture, const Parameters& parameters,
                           const ModelAbout& about);
// The stack that a Keras file describes. Invalid, naming it, for a layer or an option that is not
// there.
Result<Architecture> fromKeras(const format::KerasModel& model);
// The weights of a Keras file, by our names and in our layout; empty if the file has none.
format::NamedArrays weightsFromKeras(const format::KerasModel& model,
                                     const Architecture& architecture);

// A `forward` in TorchScript that gives what the stack gives for samples as the data has them, of
// whatever type, softmax included.
std::string toTorchScript(const Architecture& architecture, const ModelAbout& about);

// A stack of layers that a file describes, and its weights by our names; none if it has none.
struct LayerFile {
  Architecture architecture;
  format::NamedArrays weights;
  ModelAbout about;
};
// Of a .pt file that saveLayers wrote; nothing for other files, readable or not.
Result<std::optional<LayerFile>> readLayerScript(const std::string& path);

// The same for a .safetensors file whose metadata has the architecture, as saveLayers and
// checkpoints write it, or for one with a Keras configuration beside it: NAME.json or config.json.
Result<LayerFile> readLayerTensors(const std::string& path);
// A file of layers of any kind; nothing for a TorchScript module of somebody's own.
Result<std::optional<LayerFile>> readLayerFile(const std::string& path);
// What saveTorchScript put beside a module.
ModelAbout readScriptAbout(const std::string& path);

// With `about` beside the module. A reader of `path` sees the old file or the new one.
Status saveTorchScript(const std::string& path, const torch::jit::Module& module,
                       const std::map<std::string, std::string>& about);
// Class names as the module's attribute `class_names`, unless it has one of its own.
void addClassNames(torch::jit::Module& module, const std::vector<std::string>& names);

}  // namespace dure::train
