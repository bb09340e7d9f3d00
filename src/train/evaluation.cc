#include "train/evaluation.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "train/batch_loader.h"
#include "train/sample_order.h"

namespace dure::train {
namespace {

constexpr std::int64_t kBatch = 250;

}  // namespace

Result<Evaluation> evaluate(Network& network, const TrainingData& data, LossType loss,
                            group::Group& group) {
  at::NoGradGuard no_grad;
  const format::Split& split = *data.dataset().test;
  const Share share = shareOf(split.size(), group.rank(), group.size());
  std::int64_t next = share.begin;
  BatchLoader loader(data, split, [&]() -> std::optional<std::vector<std::int64_t>> {
    if (next == share.end) return std::nullopt;
    std::vector<std::int64_t> rows(static_cast<std::size_t>(std::min(kBatch, share.end - next)));
    std::iota(rows.begin(), rows.end(), next);
    next += static_cast<std::int64_t>(rows.size());
    return rows;
  });
  double losses = 0;
  std::int64_t correct = 0;
  for (std::int64_t done = 0; done < share.size();) {
    auto batch = loader.take();
    if (!batch) return std::move(batch).error();
    const at::Tensor outputs = network.forward(batch->samples, nullptr);
    losses += lossSum(loss, outputs, batch->labels, 0).item<double>();
    correct += countCorrect(loss, outputs, batch->labels);
    done += batch->size();
  }
  if (auto reduced = group.allReduce(std::span(&losses, 1)); !reduced)
    return std::move(reduced).error();
  if (auto reduced = group.allReduce(std::span(&correct, 1)); !reduced)
    return std::move(reduced).error();
  const auto rows = static_cast<double>(split.size());
  return Evaluation{losses / rows, static_cast<double>(correct) / rows};
}

Status checkWeights(Network& network, std::int64_t step) {
  // One that is not finite makes the sum so.
  if (std::isfinite(network.parameters().values().sum().item<float>())) return {};
  return Error(Code::kInvalid,
               fmt::format("the weights became NaN or infinite after step {}: try a smaller "
                           "train.optimizer.lr, or train.clip",
                           step));
}

}  // namespace dure::train
