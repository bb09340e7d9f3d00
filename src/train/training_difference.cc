#include "train/training_difference.h"

#include <fmt/core.h>

#include <map>
#include <vector>

#include "base/text.h"

namespace dure::train {
namespace {

// What a printed job says, by field: "train.optimizer.lr" is "0.1".
std::map<std::string, std::string> fieldsOf(const std::string& text) {
  std::map<std::string, std::string> fields;
  std::vector<std::string> path;
  for (const std::string& line : split(text, '\n')) {
    const std::size_t indent = line.find_first_not_of(' ');
    const std::size_t colon = line.find(':', indent);
    if (indent == std::string::npos || colon == std::string::npos) continue;
    path.resize(indent / 2);
    path.push_back(line.substr(indent, colon - indent));
    if (colon + 2 < line.size()) fields[join(path, ".")] = line.substr(colon + 2);
  }
  return fields;
}

// The first field in which two printed jobs differ: "train.seed: 2 now, 1 then".
std::string firstDifference(const std::string& now, const std::string& then) {
  const auto ours = fieldsOf(now);
  const auto theirs = fieldsOf(then);
  auto either = ours;
  either.insert(theirs.begin(), theirs.end());
  const auto value = [](const auto& fields, const std::string& name) {
    const auto found = fields.find(name);
    return found == fields.end() ? "the default" : found->second;
  };
  for (const auto& [name, any] : either) {
    if (value(ours, name) == value(theirs, name)) continue;
    return fmt::format("{}: {} now, {} then", name, value(ours, name), value(theirs, name));
  }
  return "another version of Dure";
}

}  // namespace

std::string differenceBetween(const nlohmann::json& now, const nlohmann::json& then) try {
  if (now.at("train") != then.at("train")) return firstDifference(now["train"], then["train"]);
  if (now.at("weights") != then.at("weights")) {
    return fmt::format("the model has {} weights now, {} then", now["weights"].dump(),
                       then["weights"].dump());
  }
  if (!then.contains("data"))
    return "another version of Dure, which did not note what the data was";
  const auto rows = [](const nlohmann::json& about) {
    return about.at("data").at("train").at("rows").get<std::int64_t>();
  };
  if (rows(now) != rows(then))
    return fmt::format("the data has {} samples now, {} then", rows(now), rows(then));
  return "the data is not the same";
} catch (const nlohmann::json::exception&) {
  return "another version of Dure";
}

}  // namespace dure::train
