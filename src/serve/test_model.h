#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

#include "serve/model.h"

namespace dure::serve {

// A model of two numbers in and one out, their sum plus `bias`; or of texts of four words.
class FakeModel : public Model {
 public:
  explicit FakeModel(float bias = 0) : bias_(bias) {
    info_.shape = {2};
    info_.outputs = 1;
  }
  static std::shared_ptr<FakeModel> ofTexts() {
    auto made = std::make_shared<FakeModel>();
    made->info_.kind = InputKind::kText;
    made->info_.words = true;
    made->info_.shape = {4};
    made->info_.vocabulary = 10;
    made->info_.index = WordIndex("\n\n\n\nbad\ngood", 10);
    return made;
  }

  const ModelInfo& info() const override { return info_; }
  ModelInfo& info() { return info_; }

  Result<Predictions> run(std::span<const Samples* const> parts) const override {
    ++runs;
    if (delay.count() > 0) std::this_thread::sleep_for(delay);
    Predictions made{.shape = {1}};
    for (const Samples* part : parts) {
      for (std::int64_t row = 0; row < part->rows; ++row) {
        const auto at = static_cast<std::size_t>(row);
        float value = bias_;
        if (info_.words) {
          for (std::size_t i = 0; i < 4; ++i) value += part->words[at * 4 + i] == 5 ? 0.25F : 0;
        } else {
          value += part->numbers[at * 2] + part->numbers[at * 2 + 1];
          if (part->numbers[at * 2] == 13) return Error(Code::kInvalid, "13 is not taken");
        }
        made.values.push_back(value);
        ++made.rows;
      }
    }
    return made;
  }

  mutable std::atomic<int> runs{0};
  std::chrono::milliseconds delay{0};

 private:
  ModelInfo info_;
  float bias_;
};

}  // namespace dure::serve
