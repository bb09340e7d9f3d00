#include "predict/torch_model.h"

#include <dlfcn.h>

#include <algorithm>

#include <torch/csrc/jit/runtime/jit_exception.h>

#include "train/reason.h"

namespace dure::predict {
namespace {

// So many rows at once take memory that does not matter.
constexpr std::int64_t kMostRows = 256;

at::Tensor tensorOf(std::span<const serve::Samples* const> parts, bool words,
                    const format::Scaling& scaling) {
  std::int64_t rows = 0;
  for (const serve::Samples* part : parts) rows += part->rows;
  std::vector<std::int64_t> shape{rows};
  shape.insert(shape.end(), parts.front()->shape.begin(), parts.front()->shape.end());
  if (words) {
    at::Tensor tensor = at::empty(shape, at::kLong);
    auto* out = tensor.data_ptr<std::int64_t>();
    for (const serve::Samples* part : parts)
      out = std::copy(part->words.begin(), part->words.end(), out);
    return tensor;
  }
  at::Tensor tensor = at::empty(shape);
  auto* out = tensor.data_ptr<float>();
  for (const serve::Samples* part : parts) {
    for (const float number : part->numbers) *out++ = number * scaling.factor + scaling.offset;
  }
  return tensor;
}

}  // namespace

at::Tensor TorchModel::outputsOf(const at::Tensor& scores) const {
  if (info_.activation == "softmax") return at::softmax(scores, -1);
  if (info_.activation == "sigmoid") return at::sigmoid(scores);
  return scores;
}

Result<serve::Predictions> TorchModel::run(std::span<const serve::Samples* const> parts) const try {
  const c10::InferenceMode inference;
  const at::Tensor samples = tensorOf(parts, info_.words, scaling_);
  const std::int64_t rows = samples.size(0);
  serve::Predictions made{.rows = rows};
  for (std::int64_t first = 0; first < rows; first += kMostRows) {
    const std::int64_t count = std::min(kMostRows, rows - first);
    const at::Tensor part = rows <= kMostRows ? samples : samples.narrow(0, first, count);
    const at::Tensor outputs = outputsOf(scores(part)).to(at::kFloat).contiguous();
    if (outputs.dim() < 1 || outputs.size(0) != count)
      return Error(Code::kInvalid, "the model does not give one result for each sample");
    made.shape.assign(outputs.sizes().begin() + 1, outputs.sizes().end());
    const auto* values = outputs.data_ptr<float>();
    made.values.insert(made.values.end(), values, values + outputs.numel());
  }
  return made;
} catch (const std::bad_alloc&) {
  throw;
} catch (const std::exception& error) {
  return Error(Code::kInvalid, "the model rejects this: " + train::reasonOf(error));
}

void prepareThread() {
  at::set_num_threads(1);
  // OpenBLAS has threads of its own, which spin.
  using SetThreads = void (*)(int);
  if (auto* const set =
          reinterpret_cast<SetThreads>(dlsym(RTLD_DEFAULT, "openblas_set_num_threads")))
    set(1);
}

}  // namespace dure::predict
