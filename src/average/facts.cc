#include "average/facts.h"

#include <charconv>
#include <cstdint>

namespace dure::average {
namespace {

const std::string* textOf(const NamedModel& model, const char* name) {
  const auto found = model.content.texts.find(name);
  return found == model.content.texts.end() ? nullptr : &found->second;
}

std::optional<std::int64_t> countOf(const NamedModel& model, const char* name) {
  constexpr std::int64_t kMost = std::int64_t{1} << 50;
  const std::string* const text = textOf(model, name);
  if (text == nullptr) return std::nullopt;
  std::int64_t count = 0;
  const char* const end = text->data() + text->size();
  const auto [parsed, error] = std::from_chars(text->data(), end, count);
  if (error != std::errc() || parsed != end || count < 0 || count > kMost) return std::nullopt;
  return count;
}

std::optional<std::string> sumOf(const std::vector<NamedModel>& models, const char* name) {
  std::int64_t sum = 0;
  for (const NamedModel& model : models) {
    const auto count = countOf(model, name);
    if (!count) return std::nullopt;
    sum += *count;
  }
  return std::to_string(sum);
}

std::optional<std::string> sameOf(const std::vector<NamedModel>& models, const char* name) {
  const std::string* const first = textOf(models[0], name);
  for (const NamedModel& model : models) {
    const std::string* const text = textOf(model, name);
    if (first == nullptr || text == nullptr || *text != *first) return std::nullopt;
  }
  return *first;
}

}  // namespace

format::TextChanges averagedFacts(const std::vector<NamedModel>& models) {
  if (models.size() < 2) return {};
  std::int64_t count = 0;
  // An average may be among them.
  for (const NamedModel& model : models) count += countOf(model, "models").value_or(1);
  format::TextChanges facts{{"accuracy", std::nullopt}, {"loss", std::nullopt}};
  for (const char* name : {"samples", "workers"}) facts[name] = sumOf(models, name);
  for (const char* name : {"data", "epochs", "sync"}) facts[name] = sameOf(models, name);
  facts["models"] = std::to_string(count);
  return facts;
}

}  // namespace dure::average
