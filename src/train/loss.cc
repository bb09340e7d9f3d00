#include "train/loss.h"

namespace dure::train {

LossType lossFor(std::int64_t classes, std::int64_t outputs) {
  if (classes == 0) return LossType::kRegression;
  return classes == 2 && outputs == 1 ? LossType::kBinary : LossType::kClasses;
}

at::Tensor lossSum(LossType type, const at::Tensor& outputs, const at::Tensor& labels,
                   double smoothing) {
  switch (type) {
    case LossType::kClasses:
      return at::cross_entropy_loss(outputs, labels, {}, at::Reduction::Sum, -100, smoothing);
    case LossType::kBinary: {
      const at::Tensor target = labels.to(at::kFloat) * (1 - smoothing) + smoothing / 2;
      return at::binary_cross_entropy_with_logits(outputs.reshape({-1}), target, {}, {},
                                                  at::Reduction::Sum);
    }
    case LossType::kRegression:
      return at::mse_loss(outputs.reshape({-1}), labels, at::Reduction::Sum);
  }
  return {};
}

std::int64_t countCorrect(LossType type, const at::Tensor& outputs, const at::Tensor& labels) {
  at::NoGradGuard no_grad;
  switch (type) {
    case LossType::kClasses: {
      // By hand: argmax and a comparison are two tensors for what is a few numbers.
      const at::Tensor scores = outputs.contiguous();
      const float* score = scores.data_ptr<float>();
      const auto* label = labels.data_ptr<std::int64_t>();
      const std::int64_t classes = scores.size(1);
      std::int64_t correct = 0;
      for (std::int64_t i = 0; i < scores.size(0); ++i, score += classes) {
        correct += std::max_element(score, score + classes) - score == label[i];
      }
      return correct;
    }
    case LossType::kBinary:
      return outputs.reshape({-1}).gt(0).eq(labels.gt(0)).sum().item<std::int64_t>();
    case LossType::kRegression:
      return 0;
  }
  return 0;
}

}  // namespace dure::train
