#include "spec/load.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <tuple>

#include "base/files.h"
#include "base/text.h"
#include "spec/job_name.h"
#include "spec/overrides.h"
#include "spec/parse.h"
#include "spec/scalar.h"
#include "spec/validate.h"
#include "spec/yaml_reader.h"

namespace dure::spec {
namespace {

namespace fs = std::filesystem;

// What is shown to a person must not move the cursor or go on for pages.
std::string printable(std::string_view text) {
  constexpr std::size_t kLongest = 400;
  std::string out;
  for (const char c : toValidUtf8(text.substr(0, kLongest))) {
    const auto byte = static_cast<unsigned char>(c);
    out += byte < 0x20 || byte == 0x7F ? fmt::format("\\x{:02x}", byte) : std::string(1, c);
  }
  return text.size() > kLongest ? out + "…" : out;
}

// What an override puts into the tree; nothing if it cannot be read.
std::optional<TreeNode> overrideValue(const Override& override, int source,
                                      std::vector<Finding>& findings) {
  const Position at{source, 0, 0};
  if (const auto* words = std::get_if<std::vector<std::string>>(&override.value)) {
    TreeNode list;
    list.kind = TreeNode::Kind::kList;
    list.at = at;
    for (const std::string& word : *words) list.children.push_back(TreeNode::scalar(word, at));
    return list;
  }
  const auto& text = std::get<std::string>(override.value);
  if (text.empty() || isEnvironmentVariable(override.path)) return TreeNode::scalar(text, at, true);
  return readTree(text, source, findings);
}

std::optional<TreeNode> readRoot(std::optional<std::string_view> text,
                                 std::vector<Finding>& findings) {
  if (!text) return TreeNode::map({});
  std::optional<TreeNode> root = readTree(*text, 0, findings);
  if (root && !root->isMap()) {
    findings.push_back({root->at, "", "must be a map of fields, got " + describeNode(*root)});
    return std::nullopt;
  }
  return root;
}

// Defaults that depend on the rest of the job or on where it came from.
void fillDefaults(Job& job, const FieldPlaces& places, const std::string& file) {
  if (!places.has("strategy")) {
    const std::string command =
        places.has("program.command") ? places.find("program.command").shown : "";
    for (const StrategyRules& rules : kStrategies) {
      const std::string field(rules.implied_by);
      if (!field.empty() && (places.has(field) || command == field)) job.strategy = rules.strategy;
    }
  }
  if (!places.has("render.deploy") && job.render.inspector) job.render.deploy = false;
  if (!places.has("name")) job.name = defaultJobName(file, job.program.command);
  const fs::path parent = fs::path(file).parent_path();
  const fs::path directory = absolutePath(parent.empty() ? "." : parent.string());
  fs::path workdir = (directory / job.program.workdir).lexically_normal();
  if (!workdir.has_filename() && workdir.has_relative_path()) workdir = workdir.parent_path();
  job.program.workdir = workdir.string();
}

// `shown` names the text in problems; `file` is the path it was read from, or empty.
Loaded load(const std::string& shown, const std::string& file, std::optional<std::string_view> text,
            const std::vector<Override>& overrides) {
  Loaded loaded;
  std::vector<Finding> findings;
  if (auto root = readRoot(text, findings)) {
    moveAliases(*root, findings);
    int source = 0;
    for (const Override& override : overrides) {
      auto value = overrideValue(override, ++source, findings);
      if (value) setAtPath(*root, override.path, std::move(*value), findings);
    }
    const FieldPlaces places = parseJob(*root, loaded.job, findings);
    fillDefaults(loaded.job, places, file);
    validateJob(loaded.job, places, findings);
  }
  std::vector<std::string> origins;
  for (const Override& override : overrides) origins.push_back(override.origin);
  loaded.problems = toProblems(std::move(findings), shown, origins);
  return loaded;
}

}  // namespace

std::vector<Problem> toProblems(std::vector<Finding> findings, const std::string& file,
                                const std::vector<std::string>& origins) {
  const auto place = [](const Finding& f) {
    return std::tie(f.at.source, f.at.line, f.at.column, f.field, f.message);
  };
  const auto order = [&](const Finding& a, const Finding& b) { return place(a) < place(b); };
  const auto same = [&](const Finding& a, const Finding& b) { return place(a) == place(b); };
  std::sort(findings.begin(), findings.end(), order);
  findings.erase(std::unique(findings.begin(), findings.end(), same), findings.end());
  std::vector<Problem> problems;
  for (const Finding& finding : findings) {
    if (problems.size() == kMaxProblems) {
      const std::size_t left = findings.size() - kMaxProblems;
      problems.push_back({file, 0, 0, "", fmt::format("{} more problems are not shown", left)});
      break;
    }
    const auto source = static_cast<std::size_t>(finding.at.source);
    problems.push_back({source == 0 ? file : origins.at(source - 1), finding.at.line,
                        finding.at.column, printable(finding.field), printable(finding.message)});
  }
  return problems;
}

Job loadJobTree(TreeNode root, const std::string& file, std::vector<Finding>& findings) {
  Job job;
  moveAliases(root, findings);
  const FieldPlaces places = parseJob(root, job, findings);
  fillDefaults(job, places, file);
  validateJob(job, places, findings);
  return job;
}

Loaded loadJobText(const std::string& file, std::string_view text,
                   const std::vector<Override>& overrides) {
  return load(file, file, text, overrides);
}

Loaded loadJobFile(const std::string& path, const std::vector<Override>& overrides) {
  const bool standard_input = path == "-";
  const std::string source = standard_input ? "/dev/stdin" : path;
  const std::string shown = standard_input ? "standard input" : path;
  const auto text = readFile(source, kMaxJobFileSize);
  if (text) return load(shown, standard_input ? "" : path, *text, overrides);
  // The reason begins with the path, which the problem says by itself.
  std::string reason = text.error().message();
  if (reason.starts_with(source + ": ")) reason = reason.substr(source.size() + 2);
  Loaded loaded;
  loaded.problems.push_back({shown, 0, 0, "", reason});
  return loaded;
}

Loaded loadJobOverrides(const std::vector<Override>& overrides) {
  return load("", "", std::nullopt, overrides);
}

}  // namespace dure::spec
