#include "train/loss.h"

#include <gmock/gmock.h>

namespace dure::train {
namespace {

TEST(LossTest, FollowsFromClassesAndOutputs) {
  EXPECT_EQ(lossFor(10, 10), LossType::kClasses);
  EXPECT_EQ(lossFor(2, 1), LossType::kBinary);
  EXPECT_EQ(lossFor(0, 1), LossType::kRegression);
}

TEST(LossTest, IsTheSumThatPyTorchComputes) {
  torch::manual_seed(5);
  const at::Tensor outputs = at::randn({6, 4});
  const at::Tensor labels = at::tensor({0, 1, 2, 3, 3, 1}).to(at::kLong);
  for (const double smoothing : {0.0, 0.1}) {
    const at::Tensor expected =
        at::cross_entropy_loss(outputs, labels, {}, at::Reduction::Sum, -100, smoothing);
    EXPECT_NEAR(lossSum(LossType::kClasses, outputs, labels, smoothing).item<double>(),
                expected.item<double>(), 1e-4);
  }
  const at::Tensor scores = at::randn({5, 1});
  const at::Tensor answers = at::tensor({0, 1, 1, 0, 1}).to(at::kLong);
  EXPECT_NEAR(lossSum(LossType::kBinary, scores, answers, 0).item<double>(),
              at::binary_cross_entropy_with_logits(scores.flatten(), answers.to(at::kFloat), {}, {},
                                                   at::Reduction::Sum)
                  .item<double>(),
              1e-4);
}

TEST(LossTest, CountsWhatIsRight) {
  const at::Tensor outputs = at::tensor({1.0F, 2.0F, 3.0F, 0.0F, 0.5F, 0.4F}).view({3, 2});
  EXPECT_EQ(countCorrect(LossType::kClasses, outputs, at::tensor({1, 0, 1}).to(at::kLong)), 2);
  const at::Tensor scores = at::tensor({-1.0F, 0.3F, 2.0F}).view({3, 1});
  EXPECT_EQ(countCorrect(LossType::kBinary, scores, at::tensor({0, 0, 1}).to(at::kLong)), 2);
}

}  // namespace
}  // namespace dure::train
