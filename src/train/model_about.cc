#include "train/model_about.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <array>
#include <charconv>

#include <nlohmann/json.hpp>

#include "base/files.h"
#include "format/json_text.h"

namespace dure::train {
namespace {

constexpr const char* kClasses = "classes";
constexpr const char* kWords = "words";
constexpr const char* kVocabulary = "vocabulary";
constexpr const char* kSampleType = "input_type";
constexpr std::array kTrainedFacts{"data", "samples",  "epochs", "workers",
                                   "sync", "accuracy", "loss",   "models"};
constexpr std::size_t kMostOfWordIndex = std::size_t{256} << 20;
// Before the first word: padding, start, unknown.
constexpr std::int64_t kFirstIndex = 3;

}  // namespace

std::string classNamesText(const std::vector<std::string>& names) {
  // Names are bytes of a data file, and need not be UTF-8.
  return nlohmann::json(names).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::vector<std::string> classNamesOf(const std::string& text) {
  const auto list = nlohmann::json::parse(text, nullptr, false);
  if (!list.is_array()) return {};
  std::vector<std::string> names;
  for (const auto& each : list) {
    if (!each.is_string()) return {};
    names.push_back(each.get<std::string>());
  }
  return names;
}

std::map<std::string, std::string> ModelAbout::metadata() const {
  std::map<std::string, std::string> texts = trained;
  texts["input_shape"] = fmt::format("[{}]", fmt::join(sample, ", "));
  texts["input"] = words ? "words" : "numbers";
  texts["input_scale"] = fmt::format("{}", scaling.factor);
  texts["input_offset"] = fmt::format("{}", scaling.offset);
  if (!class_names.empty()) texts[kClasses] = classNamesText(class_names);
  if (!sample_type.empty()) texts[kSampleType] = sample_type;
  if (!word_lines.empty()) texts[kWords] = word_lines;
  if (words && vocabulary > 0) texts[kVocabulary] = std::to_string(vocabulary);
  return texts;
}

void ModelAbout::readMetadata(const std::map<std::string, std::string>& texts) {
  const auto text = [&](const char* name) {
    const auto found = texts.find(name);
    return found == texts.end() ? std::string() : found->second;
  };
  const auto number = [&](const char* name, auto& out) {
    const std::string value = text(name);
    std::from_chars(value.data(), value.data() + value.size(), out);
  };
  if (const auto shape = nlohmann::json::parse(text("input_shape"), nullptr, false);
      shape.is_array()) {
    sample.clear();
    for (const auto& size : shape) {
      if (size.is_number_unsigned()) sample.push_back(size.get<std::int64_t>());
    }
  }
  if (!text("input").empty()) words = text("input") == "words";
  number("input_scale", scaling.factor);
  number("input_offset", scaling.offset);
  number(kVocabulary, vocabulary);
  for (const char* name : {kClasses, "class_names"}) {
    if (class_names.empty()) class_names = classNamesOf(text(name));
  }
  if (!text(kSampleType).empty()) sample_type = text(kSampleType);
  if (!text(kWords).empty()) word_lines = text(kWords);
  for (const char* name : kTrainedFacts) {
    if (!text(name).empty()) trained[name] = text(name);
  }
}

Result<std::string> readWordIndex(const std::string& path, std::int64_t vocabulary) {
  const auto text = readFile(path, kMostOfWordIndex);
  if (!text) return text.error();
  const auto index = format::parseJson(path, *text);
  if (!index) return index.error();
  if (!index->is_object()) return Error(Code::kInvalid, path + ": not an object of words");
  std::vector<std::string> words;
  for (const auto& [word, number] : index->items()) {
    if (!number.is_number_integer())
      return Error(Code::kInvalid, fmt::format("{}: {} has no whole number", path, word));
    const auto place = number.get<std::int64_t>();
    if (place < 1 || place >= vocabulary - kFirstIndex) continue;
    if (word.find('\n') != std::string::npos) continue;
    const auto at = static_cast<std::size_t>(place + kFirstIndex);
    if (words.size() <= at) words.resize(at + 1);
    words[at] = word;
  }
  return fmt::format("{}", fmt::join(words, "\n"));
}

}  // namespace dure::train
