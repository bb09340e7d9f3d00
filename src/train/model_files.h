#pragma once

#include <map>
#include <string>

#include "base/result.h"
#include "format/keras.h"
#include "train/architecture.h"
#include "train/parameters.h"

namespace dure {

// Writes a stack of layers as the file's ending says: .h5 for Keras, .pt as TorchScript,
// .safetensors for the weights alone. All of the file or none. `about` goes along where the format
// has room.
Status saveLayers(const std::string& path, const Architecture& architecture,
                  const Parameters& parameters, const std::map<std::string, std::string>& about);

// As Keras describes and orders it, with the weights.
KerasModel toKeras(const Architecture& architecture, const Parameters& parameters);
// The stack that a Keras file describes. Invalid, naming it, for a layer or an option that is not
// there.
Result<Architecture> fromKeras(const KerasModel& model);
// The weights of a Keras file, by our names and in our layout; empty if the file has none.
NamedArrays weightsFromKeras(const KerasModel& model, const Architecture& architecture);

// A `forward` in TorchScript that gives what the stack gives, softmax included.
std::string toTorchScript(const Architecture& architecture);

// With `about` beside the module. A reader of `path` sees the old file or the new one.
Status saveTorchScript(const std::string& path, const torch::jit::Module& module,
                       const std::map<std::string, std::string>& about);

}  // namespace dure
