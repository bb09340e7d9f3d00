#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "format/batch_rows.h"
#include "spec/job.h"

namespace dure::train {

enum class LayerType {
  kConv2d,
  kMaxPool2d,
  kAveragePool2d,
  kGlobalAveragePool2d,
  kGlobalMaxPool2d,
  kFlatten,
  kDense,
  kDropout,
  kEmbedding,
  kGlobalAveragePool1d,
  kGlobalMaxPool1d,
  kLstm,
  kActivation,
};

enum class Activation { kNone, kRelu, kTanh, kSigmoid, kSoftmax, kElu, kSelu, kSoftplus };

// One layer of a stack. Which fields count depends on the type. Shapes are as Keras has them: of
// one sample, channels last.
struct Layer {
  LayerType type = LayerType::kDense;
  std::string name;  // unique in the stack, as Keras numbers them: "conv2d", "conv2d_1"
  Activation activation = Activation::kNone;
  std::int64_t units = 0;  // dense, LSTM: outputs; convolution: filters; embedding: vector size
  std::int64_t vocabulary = 0;       // embedding: words
  std::vector<std::int64_t> kernel;  // convolution, pools: height and width
  std::vector<std::int64_t> stride;
  bool same_padding = false;         // else only whole windows count
  bool bias = true;                  // dense, convolution
  bool return_sequences = false;     // LSTM
  double rate = 0;                   // dropout
  bool frozen = false;               // its weights stay as they are
  std::vector<std::int64_t> input;   // what comes in, filled by `connect`
  std::vector<std::int64_t> output;  // what goes out
};

// A stack of layers: the one description from which a network computes, a Keras file is written,
// and TorchScript is printed.
struct Architecture {
  std::vector<std::int64_t> input;  // of one sample
  bool words = false;               // the input is numbers of words
  // What a file does to samples before the first layer. Whoever reads the samples does it, so that
  // what a network gets is scaled already.
  std::optional<format::Scaling> scaling;
  std::vector<Layer> layers;
};

// What the data says about itself.
struct DataShape {
  std::vector<std::int64_t> sample;
  bool words = false;           // whole numbers that are not bytes: words, not intensities
  std::int64_t vocabulary = 0;  // with `words`: the largest word + 1
  std::int64_t classes = 0;     // 0: a regression
};

// Fills in every layer's shapes and missing names; Invalid where a layer cannot take what comes in.
Status connect(Architecture& architecture);

// A model that is built in, made to fit the data.
Result<Architecture> builtInModel(const spec::Model& model, const DataShape& data);

// What a layer with "same" padding puts around a sample, as Keras has it: left, right, above,
// below; what is odd goes to the right and below.
std::array<std::int64_t, 4> samePadding(const Layer& layer);

// What the last layer gives: the number of outputs.
std::int64_t outputsOf(const Architecture& architecture);

}  // namespace dure::train
