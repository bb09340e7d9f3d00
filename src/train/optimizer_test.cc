#include "train/optimizer.h"

#include <gmock/gmock.h>

namespace dure::train {
namespace {

constexpr std::int64_t kCount = 1003;  // no multiple of a register

// The same 20 steps with PyTorch's optimizer.
template <typename Theirs>
void expectSame(const spec::Optimizer& settings,
                const std::function<Theirs(std::vector<at::Tensor>)>& make) {
  torch::manual_seed(3);
  at::Tensor values = at::randn({kCount});
  at::Tensor theirs = values.clone().requires_grad_(true);
  FlatOptimizer optimizer(settings, kCount);
  Theirs peer = make({theirs});
  for (int step = 0; step < 20; ++step) {
    const at::Tensor grads = at::randn({kCount});
    theirs.mutable_grad() = grads.clone();
    peer.step();
    optimizer.step(values, grads, settings.lr);
  }
  EXPECT_EQ(optimizer.steps(), 20);
  EXPECT_LT((values - theirs.detach()).abs().max().item<double>(), 1e-5);
}

TEST(FlatOptimizerTest, StepsAsPyTorchsSgd) {
  using torch::optim::SGD;
  using torch::optim::SGDOptions;
  expectSame<SGD>({.name = "sgd", .lr = 0.1}, [](auto list) { return SGD(list, SGDOptions(0.1)); });
  expectSame<SGD>({.name = "sgd", .lr = 0.1, .weight_decay = 0.01},
                  [](auto list) { return SGD(list, SGDOptions(0.1).weight_decay(0.01)); });
  for (const bool nesterov : {false, true}) {
    expectSame<SGD>(
        {.name = "sgd", .lr = 0.1, .momentum = 0.9, .nesterov = nesterov, .weight_decay = 0.01},
        [&](auto list) {
          return SGD(list, SGDOptions(0.1).momentum(0.9).nesterov(nesterov).weight_decay(0.01));
        });
  }
}

TEST(FlatOptimizerTest, StepsAsPyTorchsAdam) {
  using torch::optim::Adam;
  using torch::optim::AdamOptions;
  expectSame<Adam>({.name = "adam", .lr = 0.01, .weight_decay = 0.1},
                   [](auto list) { return Adam(list, AdamOptions(0.01).weight_decay(0.1)); });
}

TEST(FlatOptimizerTest, StepsAsPyTorchsAdamW) {
  using torch::optim::AdamW;
  using torch::optim::AdamWOptions;
  expectSame<AdamW>({.name = "adamw", .lr = 0.01, .weight_decay = 0.1},
                    [](auto list) { return AdamW(list, AdamWOptions(0.01).weight_decay(0.1)); });
}

TEST(FlatOptimizerTest, GoesOnFromWhatItRemembered) {
  torch::manual_seed(4);
  const spec::Optimizer settings{.name = "adam", .lr = 0.01};
  FlatOptimizer first(settings, 10);
  at::Tensor values = at::randn({10});
  first.step(values, at::randn({10}), 0.01);
  FlatOptimizer second(settings, 10);
  for (auto& [name, memory] : second.memory()) memory.copy_(first.memory().at(name));
  second.setSteps(first.steps());
  at::Tensor copy = values.clone();
  const at::Tensor grads = at::randn({10});
  first.step(values, grads, 0.01);
  second.step(copy, grads, 0.01);
  EXPECT_TRUE(at::equal(values, copy));
}

TEST(ClipNormTest, ScalesOnlyWhatIsTooLong) {
  at::Tensor grads = at::tensor({3.0F, 4.0F});
  EXPECT_DOUBLE_EQ(clipNorm(grads, 10), 5);
  EXPECT_TRUE(at::equal(grads, at::tensor({3.0F, 4.0F})));
  EXPECT_DOUBLE_EQ(clipNorm(grads, 1), 5);
  EXPECT_NEAR(grads.norm().item<double>(), 1, 1e-5);
}

}  // namespace
}  // namespace dure::train
