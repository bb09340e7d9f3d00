#include "spec/strategies.h"

#include <algorithm>

#include "base/text.h"

namespace dure::spec {

std::string strategyName(Strategy strategy) { return std::string(rulesOf(strategy).word); }

const std::vector<std::string>& strategyWords() {
  static const std::vector<std::string> words = [] {
    std::vector<std::string> all;
    for (const StrategyRules& rules : kStrategies) all.emplace_back(rules.word);
    return all;
  }();
  return words;
}

std::string strategiesWith(bool StrategyRules::*trait) {
  std::vector<std::string> words;
  for (const StrategyRules& rules : kStrategies) {
    if (rules.*trait) words.emplace_back(rules.word);
  }
  std::reverse(words.begin(), words.end());
  return join(words, " and ");
}

}  // namespace dure::spec
