#include "spec/strategies.h"

#include <gtest/gtest.h>

#include "spec/load.h"

namespace dure::spec {
namespace {

Strategy strategyIn(const std::string& text) {
  return loadJobText("job.yaml", text, {}).job.strategy;
}

TEST(Strategies, EachIsReadByItsWord) {
  for (const StrategyRules& rules : kStrategies) {
    EXPECT_EQ(strategyIn("strategy: " + std::string(rules.word) + "\n"), rules.strategy);
  }
}

TEST(Strategies, AFieldMayChooseOne) {
  EXPECT_EQ(strategyIn("program: {command: [true]}\n"), Strategy::kPlain);
  EXPECT_EQ(strategyIn("script: train.py\n"), Strategy::kTensorflow);
  EXPECT_EQ(strategyIn("train: {model: mlp, data: /data}\n"), Strategy::kNative);
  EXPECT_EQ(strategyIn("script: train.py\ntrain: {model: mlp, data: /data}\n"), Strategy::kNative);
}

TEST(Strategies, AreNamedByWhatTheyHave) {
  EXPECT_EQ(strategiesWith(&StrategyRules::roles), "tensorflow and plain");
  EXPECT_EQ(strategiesWith(&StrategyRules::trains), "native");
}

}  // namespace
}  // namespace dure::spec
