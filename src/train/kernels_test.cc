#include "train/kernels.h"

#include <gmock/gmock.h>

namespace dure::train {
namespace {

double distance(const at::Tensor& a, const at::Tensor& b) {
  return (a - b).abs().max().item<double>();
}

at::Tensor leaf(at::IntArrayRef shape) {
  at::Tensor tensor = at::randn(shape).requires_grad_(true);
  tensor.mutable_grad() = at::full(shape, 100.0);
  return tensor;
}

TEST(DenseLayerTest, GivesWhatPyTorchGivesForwardAndBack) {
  torch::manual_seed(1);
  struct Case {
    std::int64_t rows, inputs, outputs;
    bool bias, relu, add;
  };
  for (const Case& c : {Case{1, 1, 1, true, false, false}, Case{7, 5, 3, true, true, false},
                        Case{64, 100, 33, false, true, true}, Case{33, 17, 129, true, true, true},
                        Case{0, 4, 3, true, true, false}}) {
    at::Tensor input = at::randn({c.rows, c.inputs}).requires_grad_(true);
    at::Tensor weight = leaf({c.outputs, c.inputs});
    at::Tensor bias = c.bias ? leaf({c.outputs}) : at::Tensor();
    const at::Tensor output = denseLayer(input, weight, bias, c.relu, c.add);
    const at::Tensor direction = at::randn({c.rows, c.outputs});
    output.backward(direction);

    at::Tensor input2 = input.detach().clone().requires_grad_(true);
    at::Tensor weight2 = weight.detach().clone().requires_grad_(true);
    at::Tensor bias2 = c.bias ? bias.detach().clone().requires_grad_(true) : at::Tensor();
    at::Tensor expected = at::linear(input2, weight2, bias2);
    if (c.relu) expected = at::relu(expected);
    expected.backward(direction);

    const double before = c.add ? 100 : 0;
    SCOPED_TRACE(testing::Message() << c.rows << "×" << c.inputs << " to " << c.outputs);
    EXPECT_EQ(output.sizes(), expected.sizes());
    if (c.rows > 0) {
      EXPECT_LT(distance(output, expected), 1e-4);
      EXPECT_LT(distance(input.grad(), input2.grad()), 1e-4);
    }
    EXPECT_LT(distance(weight.grad(), weight2.grad() + before), 1e-4);
    if (c.bias) {
      EXPECT_LT(distance(bias.grad(), bias2.grad() + before), 1e-4);
    }
  }
}

TEST(DenseLayerTest, WhatIsNotANumberStaysSo) {
  at::Tensor input = at::full({1, 2}, std::numeric_limits<float>::quiet_NaN());
  at::Tensor weight = leaf({3, 2});
  EXPECT_TRUE(denseLayer(input, weight, at::Tensor(), true, false).isnan().all().item<bool>());
}

TEST(MaxPoolReluTest, GivesWhatPyTorchGivesForwardAndBack) {
  torch::manual_seed(2);
  struct Case {
    std::int64_t images, channels, height, width;
  };
  // Also with a last row and column that are in no window.
  for (const Case& c :
       {Case{1, 1, 2, 2}, Case{3, 5, 8, 6}, Case{2, 33, 7, 9}, Case{4, 64, 13, 13}}) {
    const at::Tensor data = at::randn({c.images, c.channels, c.height, c.width})
                                .contiguous(at::MemoryFormat::ChannelsLast);
    at::Tensor ours = data.clone().requires_grad_(true);
    at::Tensor theirs = data.clone().requires_grad_(true);
    const at::Tensor output = maxPool2x2Relu(ours);
    const at::Tensor expected = at::relu(at::max_pool2d(theirs, {2, 2}));
    const at::Tensor direction = at::randn(expected.sizes());
    output.backward(direction);
    expected.backward(direction);
    SCOPED_TRACE(testing::Message() << c.height << "×" << c.width << "×" << c.channels);
    EXPECT_EQ(distance(output, expected), 0);
    EXPECT_EQ(distance(ours.grad(), theirs.grad()), 0);
  }
}

TEST(MaxPoolReluTest, OfEqualNumbersTheFirstHasTheGradient) {
  at::Tensor input = at::ones({1, 1, 2, 2}).requires_grad_(true);
  maxPool2x2Relu(input).sum().backward();
  EXPECT_EQ(input.grad().sum().item<float>(), 1);
  EXPECT_EQ(input.grad()[0][0][0][0].item<float>(), 1);
}

TEST(DropoutMaskTest, DropsThePartAskedForAndKeepsTheMean) {
  const at::Tensor mask = dropoutMask(at::empty({100, 1001}), 0.3, {.key = 5}, 2);
  const double dropped = (mask == 0).to(at::kDouble).mean().item<double>();
  EXPECT_NEAR(dropped, 0.3, 0.01);
  EXPECT_NEAR(mask.mean().item<double>(), 1, 0.02);
  EXPECT_EQ(at::eq(mask, 0).logical_or(at::isclose(mask, at::full({}, 1 / 0.7))).sum().item<int>(),
            mask.numel());
}

TEST(DropoutMaskTest, IsTheSameHoweverTheBatchIsSplit) {
  const StepRandom random{.key = 9, .first_sample = 40};
  const at::Tensor whole = dropoutMask(at::empty({10, 7}), 0.5, random, 0);
  const at::Tensor rest = dropoutMask(at::empty({6, 7}), 0.5, {.key = 9, .first_sample = 44}, 0);
  EXPECT_TRUE(at::equal(whole.narrow(0, 4, 6), rest));
  EXPECT_FALSE(at::equal(whole, dropoutMask(at::empty({10, 7}), 0.5, random, 1)));
  EXPECT_FALSE(
      at::equal(whole, dropoutMask(at::empty({10, 7}), 0.5, {.key = 10, .first_sample = 40}, 0)));
}

}  // namespace
}  // namespace dure::train
