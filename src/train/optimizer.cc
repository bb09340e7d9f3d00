#include "train/optimizer.h"

#include <cmath>

#include "train/vectorised.h"

namespace dure::train {
namespace {

constexpr std::int64_t kGrain = 1 << 16;

struct SgdStep {
  float rate, momentum, decay;
  bool nesterov;
};

DURE_VECTORISED void plainSgd(float* __restrict value, const float* __restrict grad,
                              std::int64_t count, float rate, float decay) {
  for (std::int64_t i = 0; i < count; ++i) value[i] -= rate * (grad[i] + decay * value[i]);
}

DURE_VECTORISED void momentumSgd(float* __restrict value, const float* __restrict grad,
                                 float* __restrict velocity, std::int64_t count, SgdStep s) {
  for (std::int64_t i = 0; i < count; ++i) {
    const float g = grad[i] + s.decay * value[i];
    velocity[i] = s.momentum * velocity[i] + g;
    value[i] -= s.rate * (s.nesterov ? g + s.momentum * velocity[i] : velocity[i]);
  }
}

struct AdamStep {
  float rate, beta1, beta2, epsilon;
  float rest1, rest2;     // 1 - beta, in full before rounding: 1 - 0.999f is off by 5e-5
  float decay;            // added to the gradient
  float shrink;           // or what the weights are multiplied by
  float root_correction;  // √(1 - beta2^t)
};

DURE_VECTORISED void adam(float* __restrict value, const float* __restrict grad,
                          float* __restrict mean, float* __restrict square, std::int64_t count,
                          AdamStep s) {
  for (std::int64_t i = 0; i < count; ++i) {
    const float g = grad[i] + s.decay * value[i];
    mean[i] = s.beta1 * mean[i] + s.rest1 * g;
    square[i] = s.beta2 * square[i] + s.rest2 * g * g;
    value[i] = s.shrink * value[i] -
               s.rate * mean[i] / (std::sqrt(square[i]) / s.root_correction + s.epsilon);
  }
}

}  // namespace

FlatOptimizer::FlatOptimizer(const spec::Optimizer& settings, std::int64_t count)
    : settings_(settings) {
  if (settings_.name == "sgd") {
    if (settings_.momentum > 0) memory_["momentum"] = at::zeros({count});
  } else {
    memory_["mean"] = at::zeros({count});
    memory_["square"] = at::zeros({count});
  }
}

void FlatOptimizer::step(at::Tensor& values, const at::Tensor& grads, double rate) {
  ++steps_;
  float* value = values.data_ptr<float>();
  const float* grad = grads.data_ptr<float>();
  const auto decay = static_cast<float>(settings_.weight_decay);
  const auto over = [&](auto&& part) {
    at::parallel_for(0, values.numel(), kGrain,
                     [&](std::int64_t begin, std::int64_t end) { part(begin, end - begin); });
  };
  if (settings_.name == "sgd" && settings_.momentum == 0) {
    over([&](std::int64_t at, std::int64_t count) {
      plainSgd(value + at, grad + at, count, static_cast<float>(rate), decay);
    });
    return;
  }
  if (settings_.name == "sgd") {
    float* velocity = memory_.at("momentum").data_ptr<float>();
    const SgdStep s{static_cast<float>(rate), static_cast<float>(settings_.momentum), decay,
                    settings_.nesterov};
    over([&](std::int64_t at, std::int64_t count) {
      momentumSgd(value + at, grad + at, velocity + at, count, s);
    });
    return;
  }
  float* mean = memory_.at("mean").data_ptr<float>();
  float* square = memory_.at("square").data_ptr<float>();
  const auto t = static_cast<double>(steps_);
  const bool decoupled = settings_.name == "adamw";
  const AdamStep s{
      .rate = static_cast<float>(rate / (1 - std::pow(settings_.beta1, t))),
      .beta1 = static_cast<float>(settings_.beta1),
      .beta2 = static_cast<float>(settings_.beta2),
      .epsilon = static_cast<float>(settings_.epsilon),
      .rest1 = static_cast<float>(1 - settings_.beta1),
      .rest2 = static_cast<float>(1 - settings_.beta2),
      .decay = decoupled ? 0 : decay,
      .shrink = decoupled ? static_cast<float>(1 - rate * settings_.weight_decay) : 1,
      .root_correction = static_cast<float>(std::sqrt(1 - std::pow(settings_.beta2, t)))};
  over([&](std::int64_t at, std::int64_t count) {
    adam(value + at, grad + at, mean + at, square + at, count, s);
  });
}

double clipNorm(at::Tensor& grads, double limit) {
  const float* grad = grads.data_ptr<float>();
  double squares = 0;
  for (std::int64_t i = 0; i < grads.numel(); ++i)
    squares += static_cast<double>(grad[i]) * grad[i];
  const double norm = std::sqrt(squares);
  if (norm > limit) grads.mul_(limit / (norm + 1e-6));
  return norm;
}

}  // namespace dure::train
