#include "train/architecture.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "train/shape.h"

namespace dure::train {
namespace {

using Shape = std::vector<std::int64_t>;

// The name Keras gives to a layer of this type.
std::string baseName(LayerType type) {
  switch (type) {
    case LayerType::kConv2d:
      return "conv2d";
    case LayerType::kMaxPool2d:
      return "max_pooling2d";
    case LayerType::kAveragePool2d:
      return "average_pooling2d";
    case LayerType::kGlobalAveragePool2d:
      return "global_average_pooling2d";
    case LayerType::kGlobalMaxPool2d:
      return "global_max_pooling2d";
    case LayerType::kFlatten:
      return "flatten";
    case LayerType::kDense:
      return "dense";
    case LayerType::kDropout:
      return "dropout";
    case LayerType::kEmbedding:
      return "embedding";
    case LayerType::kGlobalAveragePool1d:
      return "global_average_pooling1d";
    case LayerType::kGlobalMaxPool1d:
      return "global_max_pooling1d";
    case LayerType::kLstm:
      return "lstm";
    case LayerType::kActivation:
      return "activation";
  }
  return "layer";
}

// How many windows fit into `size`.
std::int64_t windows(std::int64_t size, std::int64_t kernel, std::int64_t stride, bool same) {
  if (!same && size < kernel) return 0;
  return same ? (size + stride - 1) / stride : (size - kernel) / stride + 1;
}

Result<Shape> outputOf(const Layer& layer, const Shape& in) {
  const auto wrong = [&](const char* wants) {
    return Error(Code::kInvalid,
                 fmt::format("the layer {} takes {}, but gets a sample of shape [{}]", layer.name,
                             wants, fmt::join(in, ", ")));
  };
  switch (layer.type) {
    case LayerType::kConv2d:
    case LayerType::kMaxPool2d:
    case LayerType::kAveragePool2d: {
      if (in.size() != 3) return wrong("an image (height, width, channels)");
      Shape out(3);
      for (std::size_t i = 0; i < 2; ++i) {
        out[i] = windows(in[i], layer.kernel[i], layer.stride[i], layer.same_padding);
        if (out[i] < 1) return wrong("an image at least as large as its window");
      }
      out[2] = layer.type == LayerType::kConv2d ? layer.units : in[2];
      return out;
    }
    case LayerType::kGlobalAveragePool2d:
    case LayerType::kGlobalMaxPool2d:
      if (in.size() != 3) return wrong("an image (height, width, channels)");
      return Shape{in[2]};
    case LayerType::kFlatten:
      return Shape{elementsOf(in)};
    case LayerType::kDense:
      if (in.size() != 1) return wrong("a vector");
      return Shape{layer.units};
    case LayerType::kDropout:
    case LayerType::kActivation:
      return in;
    case LayerType::kEmbedding:
      if (in.size() != 1) return wrong("a row of words");
      return Shape{in[0], layer.units};
    case LayerType::kGlobalAveragePool1d:
    case LayerType::kGlobalMaxPool1d:
      if (in.size() != 2) return wrong("a row of vectors");
      return Shape{in[1]};
    case LayerType::kLstm:
      if (in.size() != 2) return wrong("a row of vectors");
      return layer.return_sequences ? Shape{in[0], layer.units} : Shape{layer.units};
  }
  return in;
}

Layer dense(std::int64_t units, Activation activation) {
  return {.type = LayerType::kDense, .activation = activation, .units = units};
}

void addHidden(Architecture& made, const std::vector<int>& sizes, double dropout) {
  for (const int size : sizes) {
    made.layers.push_back(dense(size, Activation::kRelu));
    if (dropout > 0) made.layers.push_back({.type = LayerType::kDropout, .rate = dropout});
  }
}

// {28, 28} is an image without a channel axis.
void addChannels(Architecture& made) {
  if (made.input.size() == 2) made.input.push_back(1);
}

Architecture convnet(const spec::Model& model, Architecture made) {
  addChannels(made);
  const std::vector<int> filters = model.filters.empty() ? std::vector{32, 64} : model.filters;
  // Of what is left of an image: small ones have no room for every pooling.
  std::int64_t smaller = made.input.size() == 3 ? std::min(made.input[0], made.input[1]) : 0;
  for (const int count : filters) {
    made.layers.push_back({.type = LayerType::kConv2d,
                           .activation = Activation::kRelu,
                           .units = count,
                           .kernel = {3, 3},
                           .stride = {1, 1}});
    smaller -= 2;
    if (smaller < 2) continue;
    made.layers.push_back({.type = LayerType::kMaxPool2d, .kernel = {2, 2}, .stride = {2, 2}});
    smaller /= 2;
  }
  made.layers.push_back({.type = LayerType::kFlatten});
  const double dropout = model.dropout < 0 ? 0.5 : model.dropout;
  if (dropout > 0) made.layers.push_back({.type = LayerType::kDropout, .rate = dropout});
  addHidden(made, model.hidden, 0);
  return made;
}

Architecture mlp(const spec::Model& model, Architecture made) {
  if (made.input.size() != 1) made.layers.push_back({.type = LayerType::kFlatten});
  addHidden(made, model.hidden.empty() ? std::vector{512, 512} : model.hidden, model.dropout);
  return made;
}

Architecture text(const spec::Model& model, const DataShape& data, Architecture made) {
  const std::int64_t vector_size = model.embedding > 0 ? model.embedding : 32;
  made.layers.push_back({.type = LayerType::kEmbedding,
                         .units = vector_size,
                         .vocabulary = model.vocabulary > 0 ? model.vocabulary : data.vocabulary});
  if (model.lstm > 0) {
    made.layers.push_back(
        {.type = LayerType::kLstm, .activation = Activation::kTanh, .units = model.lstm});
  } else {
    made.layers.push_back({.type = LayerType::kGlobalAveragePool1d});
  }
  addHidden(made, model.hidden.empty() ? std::vector{16} : model.hidden, model.dropout);
  return made;
}

}  // namespace

Status connect(Architecture& architecture) {
  std::map<std::string, int> used;
  Shape shape = architecture.input;
  for (Layer& layer : architecture.layers) {
    if (layer.name.empty()) {
      const std::string base = baseName(layer.type);
      const int number = used[base]++;
      layer.name = number == 0 ? base : fmt::format("{}_{}", base, number);
    }
    layer.input = shape;
    auto output = outputOf(layer, shape);
    if (!output) return std::move(output).error();
    if (!format::checkedElements(*output)) {
      return Error(Code::kInvalid,
                   fmt::format("the layer {} gives a sample of shape [{}], which is too large",
                               layer.name, fmt::join(*output, ", ")));
    }
    layer.output = shape = *output;
  }
  return {};
}

Result<Architecture> builtInModel(const spec::Model& model, const DataShape& data) {
  Architecture made{.input = data.sample, .words = data.words};
  if (model.name == "text") {
    if (!data.words) {
      return Error(
          Code::kInvalid,
          "train.model: text learns from numbers of words, and this data has other numbers");
    }
    made = text(model, data, std::move(made));
  } else {
    made.words = false;
    if (model.name == "convnet") {
      made = convnet(model, std::move(made));
    } else if (model.name == "mlp") {
      made = mlp(model, std::move(made));
    } else if (made.input.size() != 1) {
      made.layers.push_back({.type = LayerType::kFlatten});
    }
  }
  if (data.classes > 0) {
    made.layers.push_back(dense(data.classes, Activation::kSoftmax));
  } else {
    made.layers.push_back(dense(1, Activation::kNone));
  }
  if (auto connected = connect(made); !connected) {
    return std::move(connected).error().during("train.model: " + model.name);
  }
  return made;
}

std::array<std::int64_t, 4> samePadding(const Layer& layer) {
  std::array<std::int64_t, 4> pads{};
  for (std::size_t i = 0; i < 2; ++i) {
    const std::int64_t covered = (layer.output[i] - 1) * layer.stride[i] + layer.kernel[i];
    const std::int64_t pad = std::max<std::int64_t>(0, covered - layer.input[i]);
    pads[(1 - i) * 2] = pad / 2;
    pads[(1 - i) * 2 + 1] = pad - pad / 2;
  }
  return pads;
}

std::int64_t outputsOf(const Architecture& architecture) {
  const Shape& shape =
      architecture.layers.empty() ? architecture.input : architecture.layers.back().output;
  return elementsOf(shape);
}

}  // namespace dure::train
