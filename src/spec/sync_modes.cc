#include "spec/sync_modes.h"

namespace dure::spec {

const std::vector<std::string>& syncWords() {
  static const std::vector<std::string> words = [] {
    std::vector<std::string> all;
    for (const SyncRules& rules : kSyncModes) {
      if (!rules.word.empty()) all.emplace_back(rules.word);
    }
    return all;
  }();
  return words;
}

std::optional<SyncMode> syncModeNamed(std::string_view word) {
  for (const SyncRules& rules : kSyncModes) {
    if (!rules.word.empty() && rules.word == word) return rules.mode;
  }
  return std::nullopt;
}

}  // namespace dure::spec
