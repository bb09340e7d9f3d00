#pragma once

#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/result.h"
#include "format/array.h"

namespace dure::format {

// One layer of a Keras Sequential model, as its configuration describes it.
struct KerasLayer {
  std::string type;                                    // "Conv2D", "Dense", "LSTM", …
  std::string name;                                    // unique in the model: "conv2d_1"
  nlohmann::json config;                               // the layer's "config" without the name
  std::vector<std::pair<std::string, Array>> weights;  // "kernel", "bias", … in Keras' order
};

struct KerasModel {
  std::string name = "sequential";
  std::vector<KerasLayer> layers;  // an InputLayer first where the file has one
  nlohmann::json training_config;  // null: none
  // Further texts beside Keras' own, which it passes over.
  std::map<std::string, std::string> attributes;
  // A table of words, a line each, which would be too large for an attribute; empty: none.
  std::string words;
};

// HDF5 is not thread-safe: both functions below wait for each other, and nothing else in the
// process may call HDF5 meanwhile.

// An .h5 file in the layout that Keras 2's load_model reads: model_config, keras_version and
// backend as attributes (and what the model has besides), weights below
// model_weights/LAYER/LAYER/WEIGHT:0 with layer_names and weight_names. Written beside `path`,
// synced, renamed.
Status writeKeras(const std::string& path, const KerasModel& model);

// The architecture, and the weights where the file has them: an .h5 file that Keras or writeKeras
// wrote (weights optional), or a .json file from model.to_json(). Sequential models only, nested
// ones refused by name; channels_first refused. HDF5 is read in a process of its own, so that a
// file on which the library crashes is Invalid like any other that is damaged.
Result<KerasModel> readKeras(const std::string& path);

}  // namespace dure::format
