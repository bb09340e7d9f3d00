#include "spec/overrides.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <utility>

#include "base/text.h"
#include "spec/catalog.h"
#include "spec/parse.h"

namespace dure::spec {
namespace {

// The rest of `path` below `parent`, with its dot; nothing if it is somewhere else.
std::optional<std::string> below(const std::string& path, const std::string& parent) {
  if (path == parent) return "";
  if (path.starts_with(parent + ".")) return path.substr(parent.size());
  return std::nullopt;
}

std::string withoutAlias(const std::string& path) {
  for (const FieldEntry& entry : fieldCatalog()) {
    if (entry.alias_of.empty()) continue;
    if (const auto rest = below(path, entry.path)) return entry.alias_of + *rest;
  }
  return path;
}

// The names on the way to `path`; nothing if it leads to no field. What follows a map of texts is
// one name, dots and all.
std::optional<std::vector<std::string>> resolve(const std::string& path) {
  for (const FieldEntry& entry : fieldCatalog()) {
    const auto rest = below(path, entry.path);
    if (!rest || !entry.any_name || rest->size() < 2) continue;
    std::vector<std::string> names = split(entry.path, '.');
    names.push_back(rest->substr(1));
    return names;
  }
  const FieldEntry* entry = findField(path);
  if (path.empty() || entry == nullptr || entry->in_list) return std::nullopt;
  return split(path, '.');
}

std::string unknownField(const std::string& path) {
  if (findField(path) != nullptr && !path.empty()) return "is inside of a list; set the whole list";
  const std::size_t dot = path.rfind('.');
  const std::string parent = dot == std::string::npos ? "" : path.substr(0, dot);
  const auto meant = suggestField(parent, path.substr(dot + 1));
  return meant ? fmt::format("unknown field; did you mean \"{}\"?", *meant) : "unknown field";
}

// What the alias stands for: itself, or a list of the words before it and itself.
TreeNode withWordsBefore(TreeNode alias, const FieldEntry& entry) {
  if (entry.before.empty() || alias.isNothing()) return alias;
  TreeNode list;
  list.kind = TreeNode::Kind::kList;
  list.at = alias.at;
  list.key_at = alias.key_at;
  for (const std::string& word : entry.before) {
    list.children.push_back(TreeNode::scalar(word, alias.at, true));
  }
  alias.key.clear();
  list.children.push_back(std::move(alias));
  return list;
}

// The section that the last of the names is in, made if need be; nullptr if there is something else
// in its place, about which the parser will complain.
TreeNode* sectionOf(TreeNode& root, const std::vector<std::string>& names, Position at) {
  TreeNode* node = &root;
  std::string here;
  for (std::size_t i = 0; i + 1 < names.size(); ++i) {
    here = joinPath(here, names[i]);
    const FieldEntry& entry = *findField(here);
    node = &node->atKey(names[i], at);
    if (node->isScalar() && !entry.shorthand.empty())
      *node = expandShorthand(*node, entry.shorthand);
    if (node->isNothing() || (node->isScalar() && entry.words_or_object)) {
      node->kind = TreeNode::Kind::kMap;
      node->text.clear();
    }
    if (!node->isMap()) return nullptr;
  }
  return node;
}

TreeNode expanded(const TreeNode& node, const FieldEntry& entry) {
  return node.isScalar() && !entry.shorthand.empty() ? expandShorthand(node, entry.shorthand)
                                                     : node;
}

void mergeEnvironment(TreeNode& into, TreeNode& from, const std::string& path,
                      std::vector<Finding>& findings) {
  std::unordered_map<std::string, std::size_t> known;
  for (std::size_t i = 0; i < into.children.size(); ++i) known[into.children[i].key] = i;
  for (TreeNode& variable : from.children) {
    variable.written_as = joinPath(path, variable.key);
    const auto found = known.find(variable.key);
    if (found == known.end()) {
      into.children.push_back(std::move(variable));
      continue;
    }
    TreeNode& there = into.children[found->second];
    if (there.key_at.source < variable.key_at.source) {
      there = std::move(variable);
    } else if (there.key_at.source == variable.key_at.source && !sameContent(there, variable)) {
      findings.push_back(
          {variable.key_at, variable.written_as, fmt::format("has another value in {}", into.key)});
    }
  }
}

// Merges an alias into the field it stands for, where both were given.
void mergeAlias(TreeNode& target, TreeNode& alias, const FieldEntry& entry, const std::string& path,
                std::vector<Finding>& findings) {
  if (alias.isNothing()) return;
  if (entry.any_name && alias.isMap() && (target.isMap() || target.isNothing())) {
    target.kind = TreeNode::Kind::kMap;
    mergeEnvironment(target, alias, path, findings);
  } else if (target.key_at.source < alias.key_at.source) {
    target = std::move(alias);
  } else if (target.key_at.source == alias.key_at.source &&
             !sameContent(expanded(target, entry), expanded(alias, entry))) {
    findings.push_back(
        {alias.key_at, path, fmt::format("says something else than {}", entry.path)});
  }
}

}  // namespace

void moveAliases(TreeNode& root, std::vector<Finding>& findings) {
  for (const FieldEntry& entry : fieldCatalog()) {
    if (entry.alias_of.empty()) continue;
    const std::vector<std::string> names = split(entry.path, '.');
    TreeNode* parent = names.size() == 1 ? &root : root.find(names.front());
    TreeNode* child = parent == nullptr ? nullptr : parent->find(names.back());
    if (child == nullptr) continue;
    TreeNode alias = withWordsBefore(*child, entry);
    parent->remove(names.back());
    const std::vector<std::string> targets = split(entry.alias_of, '.');
    TreeNode* section = sectionOf(root, targets, alias.key_at);
    if (section == nullptr) continue;
    alias.key = targets.back();
    alias.written_as = entry.path;
    if (TreeNode* target = section->find(targets.back())) {
      mergeAlias(*target, alias, *findField(entry.alias_of), entry.path, findings);
    } else {
      section->children.push_back(std::move(alias));
    }
  }
}

void setAtPath(TreeNode& root, const std::string& path, TreeNode value,
               std::vector<Finding>& findings) {
  const Position at = value.at;
  if (const FieldEntry* entry = findField(path)) {
    value = withWordsBefore(std::move(value), *entry);
    if (!entry->alias_of.empty()) value.written_as = path;
  }
  const auto names = resolve(withoutAlias(path));
  if (!names) {
    findings.push_back({at, path, unknownField(path)});
    return;
  }
  TreeNode* node = sectionOf(root, *names, at);
  if (node == nullptr) return;
  value.key = names->back();
  value.key_at = at;
  node->atKey(names->back(), at) = std::move(value);
  moveAliases(root, findings);
}

bool isEnvironmentVariable(const std::string& path) {
  const std::string target = withoutAlias(path);
  return findField(target) == nullptr && resolve(target).has_value();
}

}  // namespace dure::spec
