#include <fmt/core.h>
#include <fmt/ranges.h>

#include <cmath>

#include "train/kernels.h"
#include "train/model_files.h"
#include "train/network.h"
#include "train/sample_order.h"

namespace dure::train {
namespace {

at::Tensor activate(const at::Tensor& x, Activation activation) {
  switch (activation) {
    case Activation::kRelu:
      return at::relu(x);
    case Activation::kTanh:
      return at::tanh(x);
    case Activation::kSigmoid:
      return at::sigmoid(x);
    case Activation::kSoftmax:
      return at::softmax(x, -1);
    case Activation::kElu:
      return at::elu(x);
    case Activation::kSelu:
      return at::selu(x);
    case Activation::kSoftplus:
      return at::softplus(x);
    case Activation::kNone:
      break;
  }
  return x;
}

at::Tensor padSame(const at::Tensor& x, const Layer& layer, double with) {
  const auto pads = samePadding(layer);
  return pads == decltype(pads){} ? x : at::constant_pad_nd(x, pads, with);
}

std::vector<Parameters::Spec> parametersOf(const Architecture& architecture) {
  std::vector<Parameters::Spec> specs;
  for (const Layer& layer : architecture.layers) {
    const auto add = [&](const char* what, std::vector<std::int64_t> shape,
                         bool channels_last = false) {
      specs.push_back({layer.name + "." + what, std::move(shape), channels_last, layer.frozen});
    };
    if (layer.type == LayerType::kConv2d) {
      add("weight", {layer.units, layer.input[2], layer.kernel[0], layer.kernel[1]}, true);
      if (layer.bias) add("bias", {layer.units});
    } else if (layer.type == LayerType::kDense) {
      add("weight", {layer.units, layer.input[0]});
      if (layer.bias) add("bias", {layer.units});
    } else if (layer.type == LayerType::kEmbedding) {
      add("weight", {layer.vocabulary, layer.units});
    } else if (layer.type == LayerType::kLstm) {
      add("weight_ih", {4 * layer.units, layer.input[1]});
      add("weight_hh", {4 * layer.units, layer.units});
      add("bias", {4 * layer.units});
    }
  }
  return specs;
}

// Evenly in [-limit, limit), each number a function of the seed, the parameter and its place.
void drawEvenly(at::Tensor& tensor, double limit, std::uint64_t key) {
  at::Tensor drawn = at::empty(tensor.sizes());
  auto* out = drawn.data_ptr<float>();
  for (std::int64_t i = 0; i < drawn.numel(); ++i) {
    const std::uint64_t bits = mixBits(key, static_cast<std::uint64_t>(i)) >> 40;
    out[i] = static_cast<float>((static_cast<double>(bits) * 0x1p-23 - 1) * limit);
  }
  tensor.copy_(drawn);
}

// The first weights as Keras draws them: Glorot's uniform ones, words within 0.05, biases 0 except
// that an LSTM begins by remembering.
void drawWeights(Parameters& parameters, const Architecture& architecture, std::uint64_t seed) {
  at::NoGradGuard no_grad;
  std::size_t next = 0;
  for (const Layer& layer : architecture.layers) {
    const auto draw = [&](double fan_in, double fan_out) {
      const std::uint64_t key = mixBits(seed, 0x77656967'68747300u + next);
      drawEvenly(parameters[next++].value, std::sqrt(6 / (fan_in + fan_out)), key);
    };
    const auto units = static_cast<double>(layer.units);
    if (layer.type == LayerType::kConv2d) {
      const auto window = static_cast<double>(layer.kernel[0] * layer.kernel[1]);
      draw(static_cast<double>(layer.input[2]) * window, units * window);
      if (layer.bias) ++next;
    } else if (layer.type == LayerType::kDense) {
      draw(static_cast<double>(layer.input[0]), units);
      if (layer.bias) ++next;
    } else if (layer.type == LayerType::kEmbedding) {
      drawEvenly(parameters[next].value, 0.05, mixBits(seed, 0x77656967'68747300u + next));
      ++next;
    } else if (layer.type == LayerType::kLstm) {
      draw(static_cast<double>(layer.input[1]), 4 * units);
      draw(units, 4 * units);
      parameters[next++].value.narrow(0, layer.units, layer.units).fill_(1);
    }
  }
}

class LayerNetwork : public Network {
 public:
  LayerNetwork(Architecture architecture, std::uint64_t seed)
      : architecture_(std::move(architecture)) {
    parameters_ = std::make_unique<Parameters>(parametersOf(architecture_));
    drawWeights(*parameters_, architecture_, seed);
  }

  void beginStep(bool add) override {
    add_ = add;
    if (add) return;
    // Dense layers overwrite their gradients; the others' are added to by autograd.
    std::size_t next = 0;
    for (const Layer& layer : architecture_.layers) {
      const std::size_t count = parameterCount(layer);
      for (std::size_t i = 0; i < count; ++i, ++next) {
        if (layer.type != LayerType::kDense && !layer.frozen) (*parameters_)[next].grad.zero_();
      }
    }
  }

  at::Tensor forward(const at::Tensor& input, const StepRandom* random) override {
    at::Tensor x = input;
    const auto& shape = architecture_.input;
    if (shape.size() == 3) {
      x = x.reshape({x.size(0), shape[0], shape[1], shape[2]}).permute({0, 3, 1, 2});
    }
    std::size_t next = 0;
    const std::size_t count = architecture_.layers.size();
    for (std::size_t i = 0; i < count; ++i) {
      const Layer& layer = architecture_.layers[i];
      // The last layer's softmax or sigmoid is left to the loss.
      const bool last = i + 1 == count;
      if (layer.type == LayerType::kConv2d && i + 1 < count &&
          poolsAndRelu(layer, architecture_.layers[i + 1])) {
        x = maxPool2x2Relu(convolve(x, layer, next));
        ++i;
      } else {
        x = apply(layer, x, next, random, static_cast<int>(i), last);
      }
      next += parameterCount(layer);
    }
    return x;
  }

  Status save(const std::string& path, const ModelAbout& about) override {
    return saveLayers(path, architecture_, *parameters_, about);
  }

  std::string describe(const ModelAbout& about) const override {
    return describeLayers(architecture_, *parameters_, about);
  }

 private:
  static std::size_t parameterCount(const Layer& layer) {
    switch (layer.type) {
      case LayerType::kConv2d:
      case LayerType::kDense:
        return layer.bias ? 2 : 1;
      case LayerType::kEmbedding:
        return 1;
      case LayerType::kLstm:
        return 3;
      default:
        return 0;
    }
  }

  static bool poolsAndRelu(const Layer& conv, const Layer& pool) {
    const std::vector<std::int64_t> two{2, 2};
    return conv.activation == Activation::kRelu && pool.type == LayerType::kMaxPool2d &&
           pool.kernel == two && pool.stride == two && !pool.same_padding;
  }

  at::Tensor convolve(const at::Tensor& x, const Layer& layer, std::size_t first) {
    const at::Tensor bias = layer.bias ? (*parameters_)[first + 1].value : at::Tensor();
    const at::Tensor padded = layer.same_padding ? padSame(x, layer, 0) : x;
    return at::conv2d(padded, (*parameters_)[first].value, bias, layer.stride);
  }

  at::Tensor apply(const Layer& layer, at::Tensor x, std::size_t first, const StepRandom* random,
                   int number, bool last) {
    const bool left_to_loss = last && (layer.activation == Activation::kSoftmax ||
                                       layer.activation == Activation::kSigmoid);
    const Activation activation = left_to_loss ? Activation::kNone : layer.activation;
    const auto parameter = [&](std::size_t i) -> at::Tensor& {
      return (*parameters_)[first + i].value;
    };
    switch (layer.type) {
      case LayerType::kConv2d:
        return activate(convolve(x, layer, first), activation);
      case LayerType::kMaxPool2d:
        if (layer.same_padding) x = padSame(x, layer, -std::numeric_limits<double>::infinity());
        return at::max_pool2d(x, layer.kernel, layer.stride);
      case LayerType::kAveragePool2d:
        return at::avg_pool2d(x, layer.kernel, layer.stride);
      case LayerType::kGlobalAveragePool2d:
        return x.mean({2, 3});
      case LayerType::kGlobalMaxPool2d:
        return x.amax({2, 3});
      case LayerType::kFlatten:
        // In Keras' order, channels last.
        return x.dim() == 4 ? x.permute({0, 2, 3, 1}).reshape({x.size(0), -1}) : x.flatten(1);
      case LayerType::kDense: {
        const bool relu = activation == Activation::kRelu;
        x = denseLayer(x, parameter(0), layer.bias ? parameter(1) : at::Tensor(), relu, add_);
        return relu ? x : activate(x, activation);
      }
      case LayerType::kDropout:
        return random == nullptr ? x : x * dropoutMask(x, layer.rate, *random, number);
      case LayerType::kEmbedding:
        return at::embedding(parameter(0), x);
      case LayerType::kGlobalAveragePool1d:
        return x.mean(1);
      case LayerType::kGlobalMaxPool1d:
        return x.amax(1);
      case LayerType::kLstm: {
        const at::Tensor zero = at::zeros({1, x.size(0), layer.units});
        const at::Tensor no_bias = at::zeros({4 * layer.units});
        const auto result =
            at::lstm(x, {zero, zero}, {parameter(0), parameter(1), parameter(2), no_bias}, true, 1,
                     0, random != nullptr, false, true);
        return layer.return_sequences ? std::get<0>(result) : std::get<1>(result)[0];
      }
      case LayerType::kActivation:
        return activate(x, activation);
    }
    return x;
  }

  Architecture architecture_;
  bool add_ = false;
};

}  // namespace

Result<std::unique_ptr<Network>> makeLayerNetwork(Architecture architecture, std::uint64_t seed) {
  for (const Parameters::Spec& spec : parametersOf(architecture)) {
    if (format::checkedElements(spec.shape)) continue;
    return Error(Code::kInvalid, fmt::format("the weights {} of shape [{}] are too large",
                                             spec.name, fmt::join(spec.shape, ", ")));
  }
  return std::unique_ptr<Network>(std::make_unique<LayerNetwork>(std::move(architecture), seed));
}

}  // namespace dure::train
