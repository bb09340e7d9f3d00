#pragma once

#include <cstdint>

#include <torch/torch.h>

#include "train/network.h"

// Pieces of a network that PyTorch has, but not in the form in which they are quick here. Each
// takes part in its autograd.
namespace dure::train {

// input × weightᵀ + bias, and ReLU where asked. Backward writes the weights' gradients straight
// into weight.grad() and bias.grad() (or adds, with `add`), which must be there: no copy, no
// zeroing.
at::Tensor denseLayer(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias,
                      bool relu, bool add);

// Max-pooling with 2×2 windows, then ReLU, of an image that is channels-last in memory. What ReLU
// before pooling would give, with a quarter of the work.
at::Tensor maxPool2x2Relu(const at::Tensor& input);

// 0 for the part `rate` of numbers, the rest scaled up; which ones depends on `random`, `layer` and
// the sample's place, not on how the batch is split.
at::Tensor dropoutMask(const at::Tensor& like, double rate, const StepRandom& random, int layer);

}  // namespace dure::train
