#include "train/kernels.h"

#include "train/sample_order.h"

namespace dure {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

class Dense : public torch::autograd::Function<Dense> {
 public:
  static at::Tensor forward(AutogradContext* context, at::Tensor input, at::Tensor weight,
                            at::Tensor bias, bool relu, bool add) {
    at::Tensor output =
        bias.defined() ? at::addmm(bias, input, weight.t()) : at::mm(input, weight.t());
    if (relu) at::relu_(output);
    context->save_for_backward({input, weight, bias, relu ? output : at::Tensor()});
    context->saved_data["add"] = add;
    return output;
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& input = saved[0];
    const at::Tensor& weight = saved[1];
    const at::Tensor& bias = saved[2];
    at::Tensor grad = grads[0].contiguous();
    if (saved[3].defined()) grad = at::threshold_backward(grad, saved[3], 0);
    at::Tensor weight_grad = weight.grad();
    at::Tensor bias_grad = bias.defined() ? bias.grad() : at::Tensor();
    if (context->saved_data["add"].toBool()) {
      weight_grad.addmm_(grad.t(), input);
      if (bias_grad.defined()) bias_grad.add_(grad.sum(0));
    } else {
      at::mm_out(weight_grad, grad.t(), input);
      if (bias_grad.defined()) at::sum_out(bias_grad, grad, 0);
    }
    at::Tensor input_grad;
    if (context->needs_input_grad(0)) input_grad = at::mm(grad, weight);
    return {input_grad, at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

// The four numbers of a window are at these distances from its first.
struct Window {
  std::int64_t right, down;
};

// `which` says which of the window's numbers was the largest, or 4 if none was above 0.
void poolForward(const float* in, float* out, std::uint8_t* which, Window at,
                 std::int64_t channels) {
  for (std::int64_t c = 0; c < channels; ++c) {
    const float a = in[c];
    const float b = in[c + at.right];
    const float d = in[c + at.down];
    const float e = in[c + at.down + at.right];
    float best = a;
    std::uint8_t index = 0;
    index = b > best ? std::uint8_t{1} : index;
    best = b > best ? b : best;
    index = d > best ? std::uint8_t{2} : index;
    best = d > best ? d : best;
    index = e > best ? std::uint8_t{3} : index;
    best = e > best ? e : best;
    out[c] = best > 0 ? best : 0;
    which[c] = best > 0 ? index : std::uint8_t{4};
  }
}

void poolBackward(const float* grad, const std::uint8_t* which, float* out, Window at,
                  std::int64_t channels) {
  for (std::int64_t c = 0; c < channels; ++c) {
    const float g = grad[c];
    const std::uint8_t index = which[c];
    out[c] = index == 0 ? g : 0;
    out[c + at.right] = index == 1 ? g : 0;
    out[c + at.down] = index == 2 ? g : 0;
    out[c + at.down + at.right] = index == 3 ? g : 0;
  }
}

class MaxPoolRelu : public torch::autograd::Function<MaxPoolRelu> {
 public:
  static at::Tensor forward(AutogradContext* context, at::Tensor input) {
    input = input.contiguous(at::MemoryFormat::ChannelsLast);
    const std::int64_t n = input.size(0), c = input.size(1), h = input.size(2), w = input.size(3);
    at::Tensor output =
        at::empty({n, c, h / 2, w / 2}, input.options(), at::MemoryFormat::ChannelsLast);
    at::Tensor which = at::empty({n, h / 2, w / 2, c}, at::kByte);
    forEachWindow(input, [&](std::int64_t place, std::int64_t from, Window at) {
      poolForward(input.data_ptr<float>() + from, output.data_ptr<float>() + place,
                  which.data_ptr<std::uint8_t>() + place, at, c);
    });
    context->saved_data["which"] = which;
    context->saved_data["shape"] = input.sizes().vec();
    return output;
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    const at::Tensor which = context->saved_data["which"].toTensor();
    const auto shape = context->saved_data["shape"].toIntVector();
    const at::Tensor grad = grads[0].contiguous(at::MemoryFormat::ChannelsLast);
    at::Tensor result = at::empty(shape, grad.options(), at::MemoryFormat::ChannelsLast);
    // A last row or column that is in no window has no part in the result.
    if (shape[2] % 2 != 0) result.select(2, shape[2] - 1).zero_();
    if (shape[3] % 2 != 0) result.select(3, shape[3] - 1).zero_();
    forEachWindow(result, [&](std::int64_t place, std::int64_t to, Window at) {
      poolBackward(grad.data_ptr<float>() + place, which.data_ptr<std::uint8_t>() + place,
                   result.data_ptr<float>() + to, at, shape[1]);
    });
    return {result};
  }

 private:
  // Calls `visit` with where a window's numbers are in the small image and in the large one.
  template <typename Visit>
  static void forEachWindow(const at::Tensor& large, Visit visit) {
    const std::int64_t n = large.size(0), c = large.size(1), h = large.size(2), w = large.size(3);
    const std::int64_t out_h = h / 2, out_w = w / 2;
    at::parallel_for(0, n * out_h, 16, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        const std::int64_t from = (row / out_h * h + row % out_h * 2) * w * c;
        for (std::int64_t x = 0; x < out_w; ++x) {
          visit((row * out_w + x) * c, from + x * 2 * c, Window{c, w * c});
        }
      }
    });
  }
};

}  // namespace

at::Tensor denseLayer(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias,
                      bool relu, bool add) {
  return Dense::apply(input, weight, bias, relu, add);
}

at::Tensor maxPool2x2Relu(const at::Tensor& input) { return MaxPoolRelu::apply(input); }

at::Tensor dropoutMask(const at::Tensor& like, double rate, const StepRandom& random, int layer) {
  at::Tensor mask = at::empty(like.sizes(), like.options());
  const std::int64_t samples = like.size(0);
  const std::int64_t each = samples == 0 ? 0 : like.numel() / samples;
  const auto kept = static_cast<float>(1 / (1 - rate));
  const auto threshold = static_cast<std::uint32_t>(rate * 65536.0);
  auto* out = mask.data_ptr<float>();
  for (std::int64_t sample = 0; sample < samples; ++sample) {
    const std::uint64_t key = mixBits(mixBits(random.key, static_cast<std::uint64_t>(layer)),
                                      static_cast<std::uint64_t>(random.first_sample + sample));
    // Four numbers from each 64 bits.
    for (std::int64_t i = 0; i < each; i += 4) {
      std::uint64_t bits = mixBits(key + static_cast<std::uint64_t>(i));
      for (std::int64_t j = i; j < std::min(i + 4, each); ++j, bits >>= 16) {
        *out++ = (bits & 0xFFFF) < threshold ? 0.0f : kept;
      }
    }
  }
  return mask;
}

}  // namespace dure
