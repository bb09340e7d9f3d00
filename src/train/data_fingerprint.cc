#include "train/data_fingerprint.h"

#include <algorithm>
#include <string>
#include <vector>

#include "base/sha256.h"

namespace dure::train {
namespace {

// As many rows as fit into so many bytes, within these limits.
constexpr std::int64_t kBytes = 4 << 20;
constexpr std::int64_t kFewest = 16;
constexpr std::int64_t kMost = 1024;

std::int64_t bytesOf(const format::Split& split) {
  auto bytes = static_cast<std::int64_t>(format::sizeOf(split.sampleType()));
  for (const std::int64_t size : split.sampleShape()) bytes *= size;
  return bytes;
}

// One after the other, so that samples of any size need the memory of one.
Result<std::string> hashOf(const format::Split& split) {
  const std::int64_t bytes = bytesOf(split);
  const std::int64_t fit = std::clamp(kBytes / std::max<std::int64_t>(bytes, 1), kFewest, kMost);
  const std::int64_t count = std::min(split.size(), fit);
  std::string hash;
  std::vector<std::byte> sample(static_cast<std::size_t>(bytes));
  for (std::int64_t i = 0; i < count; ++i) {
    // From the first to the last, evenly.
    const std::int64_t row = count == 1 ? 0 : i * (split.size() - 1) / (count - 1);
    double label = 0;
    if (auto read = split.readSamples(std::span(&row, 1), sample.data()); !read)
      return std::move(read).error();
    if (auto read = split.readLabels(std::span(&row, 1), &label); !read)
      return std::move(read).error();
    hash.append(reinterpret_cast<const char*>(sample.data()), sample.size());
    hash.append(reinterpret_cast<const char*>(&label), sizeof label);
    hash = sha256Hex(hash);
  }
  return hash;
}

}  // namespace

Result<nlohmann::json> fingerprintOf(const format::Dataset& dataset) {
  nlohmann::json print = {{"classes", dataset.classes}, {"class_names", dataset.class_names}};
  for (const auto& [name, split] :
       {std::pair("train", dataset.train.get()), std::pair("test", dataset.test.get())}) {
    if (split == nullptr) continue;
    auto hash = hashOf(*split);
    if (!hash) return std::move(hash).error();
    print[name] = {{"rows", split->size()},
                   {"shape", split->sampleShape()},
                   {"type", format::dtypeName(split->sampleType())},
                   {"hash", *std::move(hash)}};
  }
  return print;
}

}  // namespace dure::train
