#include "train/kernels.h"

#include "train/sample_order.h"
#include "train/vectorised.h"

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

// An image in memory: rows of pixels of channels.
struct Extent {
  std::int64_t height, width, channels;
};

// Rows `begin` to `end` of the small images. All in floats and without branches, so that it becomes
// vector instructions; which number of a window was the largest is found again on the way back.
DURE_VECTORISED void poolForward(const float* __restrict in, float* __restrict out, Extent large,
                                 std::int64_t begin, std::int64_t end) {
  const std::int64_t c = large.channels, row = large.width * c;
  const std::int64_t out_h = large.height / 2, out_w = large.width / 2;
  for (std::int64_t y = begin; y < end; ++y) {
    const float* upper = in + (y / out_h * large.height + y % out_h * 2) * row;
    float* to = out + y * out_w * c;
    for (std::int64_t x = 0; x < out_w; ++x, upper += 2 * c, to += c) {
      const float* lower = upper + row;
      for (std::int64_t i = 0; i < c; ++i) {
        const float top = upper[i] > upper[i + c] ? upper[i] : upper[i + c];
        const float bottom = lower[i] > lower[i + c] ? lower[i] : lower[i + c];
        const float most = top > bottom ? top : bottom;
        to[i] = most > 0 ? most : 0;
      }
    }
  }
}

// The gradient goes to the first of a window's numbers that is the largest, if that is above 0.
DURE_VECTORISED void poolBackward(const float* __restrict in, const float* __restrict out,
                                  const float* __restrict grad, float* __restrict result,
                                  Extent large, std::int64_t begin, std::int64_t end) {
  const std::int64_t c = large.channels, row = large.width * c;
  const std::int64_t out_h = large.height / 2, out_w = large.width / 2;
  for (std::int64_t y = begin; y < end; ++y) {
    const std::int64_t first = (y / out_h * large.height + y % out_h * 2) * row;
    for (std::int64_t x = 0; x < out_w; ++x) {
      const std::int64_t at = first + x * 2 * c, small = (y * out_w + x) * c;
      for (std::int64_t i = 0; i < c; ++i) {
        const float most = out[small + i];
        const float g = most > 0 ? grad[small + i] : 0;
        const float g0 = in[at + i] == most ? g : 0;
        const float left1 = in[at + i] == most ? 0 : g;
        const float g1 = in[at + i + c] == most ? left1 : 0;
        const float left2 = in[at + i + c] == most ? 0 : left1;
        const float g2 = in[at + i + row] == most ? left2 : 0;
        result[at + i] = g0;
        result[at + i + c] = g1;
        result[at + i + row] = g2;
        result[at + i + row + c] = in[at + i + row] == most ? 0 : left2;
      }
    }
  }
}

class MaxPoolRelu : public torch::autograd::Function<MaxPoolRelu> {
 public:
  static at::Tensor forward(AutogradContext* context, at::Tensor input) {
    input = input.contiguous(at::MemoryFormat::ChannelsLast);
    const Extent large{input.size(2), input.size(3), input.size(1)};
    at::Tensor output =
        at::empty({input.size(0), large.channels, large.height / 2, large.width / 2},
                  input.options(), at::MemoryFormat::ChannelsLast);
    const float* in = input.data_ptr<float>();
    float* out = output.data_ptr<float>();
    at::parallel_for(
        0, input.size(0) * (large.height / 2), kRowGrain,
        [&](std::int64_t begin, std::int64_t end) { poolForward(in, out, large, begin, end); });
    context->save_for_backward({input, output});
    return output;
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& input = saved[0];
    const Extent large{input.size(2), input.size(3), input.size(1)};
    const at::Tensor grad = grads[0].contiguous(at::MemoryFormat::ChannelsLast);
    at::Tensor result = at::empty_like(input);
    // A last row or column that is in no window has no part in the result.
    if (large.height % 2 != 0) result.select(2, large.height - 1).zero_();
    if (large.width % 2 != 0) result.select(3, large.width - 1).zero_();
    const float* in = input.data_ptr<float>();
    const float* out = saved[1].data_ptr<float>();
    const float* from = grad.data_ptr<float>();
    float* to = result.data_ptr<float>();
    at::parallel_for(0, input.size(0) * (large.height / 2), kRowGrain,
                     [&](std::int64_t begin, std::int64_t end) {
                       poolBackward(in, out, from, to, large, begin, end);
                     });
    return {result};
  }

 private:
  static constexpr std::int64_t kRowGrain = 64;
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
