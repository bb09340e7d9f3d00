#include "train/kernels.h"

#include <dnnl.h>

#include "train/sample_order.h"
#include "train/vectorised.h"

namespace dure::train {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Rows of numbers, one after another; `turned` stands for its transpose.
struct Matrix {
  float* numbers;
  std::int64_t rows, columns;
  bool turned = false;

  explicit Matrix(const at::Tensor& tensor)
      : numbers(tensor.data_ptr<float>()), rows(tensor.size(0)), columns(tensor.size(1)) {}
  Matrix transposed() const {
    Matrix other = *this;
    other.turned = !turned;
    std::swap(other.rows, other.columns);
    return other;
  }
};

// to = left × right, or added to it. By oneDNN, which makes its code for the processor at hand;
// PyTorch's own goes through BLAS, which falls back to that of 2004 on a processor it has not heard
// of.
void multiply(const Matrix& left, const Matrix& right, Matrix to, bool add) {
  if (left.columns == 0 && !add) std::fill_n(to.numbers, to.rows * to.columns, 0.0F);
  if (to.rows == 0 || to.columns == 0 || left.columns == 0) return;
  const auto status = dnnl_sgemm(
      left.turned ? 'T' : 'N', right.turned ? 'T' : 'N', to.rows, to.columns, left.columns, 1,
      left.numbers, left.turned ? left.rows : left.columns, right.numbers,
      right.turned ? right.rows : right.columns, add ? 1 : 0, to.numbers, to.columns);
  TORCH_CHECK(status == dnnl_success, "oneDNN cannot multiply matrices of ", to.rows, "×",
              left.columns, " and ", left.columns, "×", to.columns);
}

DURE_VECTORISED void addBias(float* __restrict out, const float* __restrict bias, std::int64_t rows,
                             std::int64_t columns, bool relu) {
  for (std::int64_t row = 0; row < rows; ++row, out += columns) {
    for (std::int64_t i = 0; i < columns; ++i) {
      const float sum = bias != nullptr ? out[i] + bias[i] : out[i];
      out[i] = relu && sum < 0 ? 0 : sum;
    }
  }
}

class Dense : public torch::autograd::Function<Dense> {
 public:
  static at::Tensor forward(AutogradContext* context, at::Tensor input, at::Tensor weight,
                            const c10::optional<at::Tensor>& bias, bool relu, bool add) {
    input = input.contiguous();
    at::Tensor output = at::empty({input.size(0), weight.size(0)}, input.options());
    multiply(Matrix(input), Matrix(weight).transposed(), Matrix(output), false);
    addBias(output.data_ptr<float>(), bias ? bias->data_ptr<float>() : nullptr, output.size(0),
            output.size(1), relu);
    context->save_for_backward(
        {input, weight, bias.value_or(at::Tensor()), relu ? output : at::Tensor()});
    context->saved_data["add"] = add;
    return output;
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& input = saved[0];
    const at::Tensor& weight = saved[1];
    const at::Tensor& bias = saved[2];
    const bool add = context->saved_data["add"].toBool();
    at::Tensor grad = grads[0].contiguous();
    if (saved[3].defined()) grad = at::threshold_backward(grad, saved[3], 0);
    // Frozen weights have no gradient to write to.
    if (weight.grad().defined()) {
      multiply(Matrix(grad).transposed(), Matrix(input), Matrix(weight.grad()), add);
    }
    if (bias.defined() && bias.grad().defined()) {
      at::Tensor bias_grad = bias.grad();
      if (add) {
        bias_grad.add_(grad.sum(0));
      } else {
        at::sum_out(bias_grad, grad, 0);
      }
    }
    at::Tensor input_grad;
    if (context->needs_input_grad(0)) {
      input_grad = at::empty_like(input);
      multiply(Matrix(grad), Matrix(weight), Matrix(input_grad), false);
    }
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
  // Autograd takes no tensor for an argument that is none.
  const auto given = bias.defined() ? c10::optional<at::Tensor>(bias) : c10::nullopt;
  return Dense::apply(input, weight, given, relu, add);
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

}  // namespace dure::train
