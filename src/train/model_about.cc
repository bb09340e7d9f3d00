#include "train/model_about.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

namespace dure::train {

std::string classNamesText(const std::vector<std::string>& names) {
  // Names are bytes of a data file, and need not be UTF-8.
  return nlohmann::json(names).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::map<std::string, std::string> ModelAbout::metadata() const {
  std::map<std::string, std::string> texts{
      {"input_shape", fmt::format("[{}]", fmt::join(sample, ", "))},
      {"input", words ? "words" : "numbers"},
      {"input_scale", fmt::format("{}", scaling.factor)},
      {"input_offset", fmt::format("{}", scaling.offset)}};
  if (!class_names.empty()) texts["classes"] = classNamesText(class_names);
  return texts;
}

}  // namespace dure::train
