#include "pipeline/load.h"

#include <filesystem>

#include <fmt/core.h>

#include "base/files.h"
#include "base/text.h"
#include "pipeline/check.h"
#include "pipeline/parameters.h"
#include "pipeline/pipeline_fields.h"
#include "pipeline/references.h"
#include "spec/job_name.h"
#include "spec/load.h"
#include "spec/parse.h"
#include "spec/print.h"
#include "spec/scalar.h"
#include "spec/yaml_reader.h"

namespace dure::pipeline {
namespace {

namespace fs = std::filesystem;
using spec::Finding;
using spec::TreeNode;

std::optional<TreeNode> readPipelineRoot(std::string_view text, std::vector<Finding>& findings) {
  std::optional<TreeNode> root = spec::readTree(text, 0, findings);
  if (root && !root->isMap()) {
    findings.push_back({root->at, "", "must be a map of fields, got " + spec::describeNode(*root)});
    return std::nullopt;
  }
  return root;
}

// Parameters with the values that were set; a mistake in one is a finding.
std::vector<Parameter> readParameters(const TreeNode& root, const std::vector<Setting>& settings,
                                      std::vector<Finding>& findings) {
  Pipeline only;
  TreeNode section = TreeNode::map({});
  if (const TreeNode* node = root.find("parameters")) section.children.push_back(*node);
  std::vector<Finding> ignored;  // the whole file is parsed again, and tells them then
  spec::parseFields(
      section, pipelineCatalog(), [&](spec::FieldVisitor& v) { visitPipeline(v, only); }, ignored);
  setParameters(only.parameters, section.find("parameters"), settings, findings);
  return only.parameters;
}

// Plain text could mean something else where it is printed.
void quoteTexts(TreeNode& node) {
  if (node.isScalar() && !node.quoted && !spec::readNumber(node.text) && node.text != "true" &&
      node.text != "false") {
    node.quoted = true;
  }
  for (TreeNode& child : node.children) quoteTexts(child);
}

// The file as the record keeps it.
std::string printRecord(TreeNode root, const Pipeline& pipeline) {
  for (const auto& [field, text] :
       {std::pair("name", pipeline.name), std::pair("workdir", pipeline.workdir)}) {
    TreeNode value = TreeNode::scalar(text, {}, true);
    value.key = field;
    root.atKey(field, {}) = std::move(value);
  }
  if (TreeNode* section = root.find("parameters"); section != nullptr && section->isMap()) {
    section->children.clear();
    for (const Parameter& parameter : pipeline.parameters) {
      TreeNode node = TreeNode::map({});
      node.key = parameter.name;
      node.children.push_back(parameter.value);
      node.children.back().key = "default";
      node.children.push_back(TreeNode::scalar(typeName(parameter.type), {}, true));
      node.children.back().key = "type";
      section->children.push_back(std::move(node));
    }
  }
  quoteTexts(root);
  return spec::printTree(root);
}

std::string absoluteWorkdir(const std::string& file, const std::string& workdir) {
  const fs::path parent = fs::path(file).parent_path();
  const fs::path directory = absolutePath(parent.empty() ? "." : parent.string());
  fs::path path = (directory / workdir).lexically_normal();
  if (!path.has_filename() && path.has_relative_path()) path = path.parent_path();
  return path.string();
}

LoadedPipeline loadFrom(const std::string& shown, const std::string& file, std::string_view text,
                        const std::vector<Setting>& settings) {
  LoadedPipeline loaded;
  Pipeline& pipeline = loaded.pipeline;
  std::vector<Finding> findings;
  std::vector<spec::Problem> others;  // in job files
  if (const auto root = readPipelineRoot(text, findings)) {
    const std::vector<Parameter> parameters = readParameters(*root, settings, findings);
    checkReferences(*root, parameters, findings);
    TreeNode filled = *root;
    fillParameters(filled, parameters);
    const spec::FieldPlaces places = spec::parseFields(
        filled, pipelineCatalog(), [&](spec::FieldVisitor& v) { visitPipeline(v, pipeline); },
        findings);
    pipeline.parameters = parameters;
    if (!places.has("name")) pipeline.name = spec::defaultJobName(file, {});
    pipeline.workdir = absoluteWorkdir(file, pipeline.workdir);
    checkPipeline(pipeline, filled, places, findings, others);
    if (findings.empty() && others.empty()) loaded.text = printRecord(*root, pipeline);
  }
  std::vector<std::string> origins;
  for (const Setting& setting : settings) origins.push_back(setting.origin);
  loaded.problems = spec::toProblems(std::move(findings), shown, origins);
  loaded.problems.insert(loaded.problems.end(), others.begin(), others.end());
  return loaded;
}

}  // namespace

LoadedPipeline loadPipelineText(const std::string& file, std::string_view text,
                                const std::vector<Setting>& settings) {
  return loadFrom(file, file, text, settings);
}

LoadedPipeline loadPipelineFile(const std::string& path, const std::vector<Setting>& settings) {
  const bool standard_input = path == "-";
  const std::string source = standard_input ? "/dev/stdin" : path;
  const std::string shown = standard_input ? "standard input" : path;
  const auto text = readFile(source, spec::kMaxJobFileSize);
  if (text) return loadFrom(shown, standard_input ? "" : path, *text, settings);
  std::string reason = text.error().message();
  if (reason.starts_with(source + ": ")) reason = reason.substr(source.size() + 2);
  LoadedPipeline loaded;
  loaded.problems.push_back({shown, 0, 0, "", reason});
  return loaded;
}

}  // namespace dure::pipeline
