#include "pipeline/parameters.h"

#include <algorithm>
#include <set>

#include <fmt/core.h>

#include "base/text.h"
#include "pipeline/references.h"
#include "spec/catalog.h"
#include "spec/scalar.h"
#include "spec/yaml_reader.h"

namespace dure::pipeline {
namespace {

using spec::Finding;
using spec::TreeNode;

bool isFlag(const TreeNode& node) {
  return node.isScalar() && !node.quoted && (node.text == "true" || node.text == "false");
}

bool isListOfTexts(const TreeNode& node) {
  return node.kind == TreeNode::Kind::kList &&
         std::all_of(node.children.begin(), node.children.end(),
                     [](const TreeNode& child) { return child.isScalar(); });
}

ParameterType typeOf(const TreeNode& value) {
  if (value.kind == TreeNode::Kind::kList) return ParameterType::kList;
  if (!value.isScalar() || value.quoted) return ParameterType::kText;
  if (spec::readInteger(value.text)) return ParameterType::kWhole;
  if (spec::readNumber(value.text)) return ParameterType::kNumber;
  return isFlag(value) ? ParameterType::kFlag : ParameterType::kText;
}

bool fits(const TreeNode& value, ParameterType type) {
  switch (type) {
    case ParameterType::kWhole:
      return value.isScalar() && !value.quoted && spec::readInteger(value.text).has_value();
    case ParameterType::kNumber:
      return value.isScalar() && !value.quoted && spec::readNumber(value.text).has_value();
    case ParameterType::kFlag:
      return isFlag(value);
    case ParameterType::kList:
      return isListOfTexts(value);
    case ParameterType::kText:
    case ParameterType::kAuto:
      break;
  }
  return value.isScalar();
}

std::string wantedOf(ParameterType type) {
  switch (type) {
    case ParameterType::kWhole:
      return "a whole number";
    case ParameterType::kNumber:
      return "a number";
    case ParameterType::kFlag:
      return "true or false";
    case ParameterType::kList:
      return "a list of texts";
    default:
      return "a text";
  }
}

std::string describeValue(const TreeNode& value) { return spec::describeNode(value); }

// What stands for the value inside of a longer text.
std::string textOf(const TreeNode& value) {
  if (value.kind != TreeNode::Kind::kList) return value.text;
  std::vector<std::string> words;
  for (const TreeNode& child : value.children) words.push_back(child.text);
  return join(words, ",");
}

void fillNode(TreeNode& node, const std::vector<Parameter>& parameters) {
  if (node.isScalar()) {
    const auto sole = soleReference(node.text);
    const auto known = sole ? valueOf(*sole, parameters) : std::nullopt;
    if (known && node.key != "command") {
      TreeNode value = *known;
      if (value.isNothing()) return;
      value.key = node.key;
      value.key_at = node.key_at;
      value.at = node.at;
      value.text = escape(value.text);
      for (TreeNode& child : value.children) {
        child.at = node.at;
        child.text = escape(child.text);
      }
      node = std::move(value);
      return;
    }
    const auto lookup = [&](const std::string& name) -> std::optional<std::string> {
      const auto found = valueOf(name, parameters);
      if (!found || found->isNothing()) return std::nullopt;
      return escape(textOf(*found));
    };
    node.text = substitute(node.text, lookup, node.key == "command");
  }
  for (TreeNode& child : node.children) fillNode(child, parameters);
}

}  // namespace

std::string typeName(ParameterType type) {
  switch (type) {
    case ParameterType::kAuto:
      return "auto";
    case ParameterType::kWhole:
      return "whole";
    case ParameterType::kNumber:
      return "number";
    case ParameterType::kText:
      return "text";
    case ParameterType::kFlag:
      return "flag";
    case ParameterType::kList:
      break;
  }
  return "list";
}

void setParameters(std::vector<Parameter>& parameters, const TreeNode* section,
                   const std::vector<Setting>& settings, std::vector<Finding>& findings) {
  std::vector<std::string> names;
  for (Parameter& parameter : parameters) {
    names.push_back(parameter.name);
    const bool given = !parameter.value.isNothing();
    if (parameter.type == ParameterType::kAuto) parameter.type = typeOf(parameter.value);
    if (given && !fits(parameter.value, parameter.type)) {
      findings.push_back({parameter.value.at, "parameters." + parameter.name,
                          fmt::format("must be {}, got {}", wantedOf(parameter.type),
                                      describeValue(parameter.value))});
    }
  }
  std::set<std::string> set;
  int source = 0;
  for (const Setting& setting : settings) {
    const spec::Position at{++source, 0, 0};
    const auto parameter = std::find_if(parameters.begin(), parameters.end(),
                                        [&](const Parameter& p) { return p.name == setting.name; });
    if (parameter == parameters.end()) {
      std::string message = fmt::format("no parameter '{}'", setting.name);
      if (const auto near = closest(setting.name, names)) {
        message += fmt::format("; did you mean '{}'?", *near);
      }
      findings.push_back({at, setting.name, message});
      continue;
    }
    set.insert(setting.name);
    std::optional<TreeNode> value = TreeNode::scalar(setting.value, at, true);
    // A text is taken as it is, whatever else it could be.
    if (parameter->type != ParameterType::kText && !setting.value.empty()) {
      value = spec::readTree(setting.value, source, findings);
    }
    if (!value) continue;
    if (!fits(*value, parameter->type)) {
      findings.push_back(
          {at, setting.name,
           fmt::format("must be {}, got {}", wantedOf(parameter->type), describeValue(*value))});
      continue;
    }
    parameter->value = *std::move(value);
  }
  for (const Parameter& parameter : parameters) {
    if (!parameter.value.isNothing() || set.contains(parameter.name)) continue;
    const TreeNode* node = section == nullptr ? nullptr : section->find(parameter.name);
    findings.push_back({node == nullptr ? spec::Position{} : node->key_at,
                        "parameters." + parameter.name,
                        fmt::format("has no default; set it with --set {}=VALUE", parameter.name)});
  }
  for (Parameter& parameter : parameters) {
    if (parameter.type == ParameterType::kText) parameter.value.quoted = true;
  }
}

std::optional<TreeNode> valueOf(const std::string& name, const std::vector<Parameter>& parameters) {
  const auto find = [&](const std::string& wanted) {
    return std::find_if(parameters.begin(), parameters.end(),
                        [&](const Parameter& p) { return p.name == wanted; });
  };
  if (const auto found = find(name); found != parameters.end()) return found->value;
  if (name.find('*') == std::string::npos) return std::nullopt;
  std::int64_t product = 1;
  for (std::string factor : split(name, '*')) {
    std::erase(factor, ' ');
    const auto found = find(factor);
    if (found != parameters.end() && found->type != ParameterType::kWhole) return std::nullopt;
    const auto number = spec::readInteger(found == parameters.end() ? factor : found->value.text);
    if (!number || __builtin_mul_overflow(product, *number, &product)) return std::nullopt;
  }
  return TreeNode::scalar(std::to_string(product), {});
}

void fillParameters(TreeNode& root, const std::vector<Parameter>& parameters) {
  for (TreeNode& child : root.children) {
    if (child.key != "parameters") fillNode(child, parameters);
  }
}

}  // namespace dure::pipeline
