#include "spec/job_tree.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/text.h"
#include "spec/fields.h"

namespace dure::spec {
namespace {

TreeNode word(std::string_view text) { return TreeNode::scalar(std::string(text), {}, true); }

TreeNode listOfNodes(std::vector<TreeNode> items) {
  TreeNode list;
  list.kind = TreeNode::Kind::kList;
  list.children = std::move(items);
  return list;
}

TreeNode listOfWords(const std::vector<std::string>& texts) {
  std::vector<TreeNode> items;
  items.reserve(texts.size());
  for (const std::string& text : texts) items.push_back(word(text));
  return listOfNodes(std::move(items));
}

template <typename Number>
TreeNode numeral(Number value) {
  return TreeNode::scalar(fmt::format("{}", value), {});
}

// The scalar that the map can be written as, if it is nothing but that scalar.
TreeNode shortened(TreeNode map, const std::vector<std::string>& shorthand) {
  if (shorthand.empty() || map.children.size() != shorthand.size()) return map;
  const TreeNode* first = map.find(shorthand.front());
  for (const std::string& name : shorthand) {
    const TreeNode* child = map.find(name);
    if (first == nullptr || child == nullptr || !sameContent(*first, *child)) return map;
  }
  TreeNode scalar = *first;
  scalar.key.clear();
  return scalar;
}

// Writes the fields of one object. With `defaults`, the full tree of the default object, it leaves
// out what equals them and shortens the rest.
class TreeWriter : public FieldVisitor {
 public:
  explicit TreeWriter(const TreeNode* defaults, std::set<std::string> always = {})
      : defaults_(defaults), short_(defaults != nullptr), always_(std::move(always)) {}

  TreeNode take() { return std::move(map_); }

  void text(const Field& field, std::string& value, const TextRule& /*rule*/) override {
    put(field, word(value));
  }
  void whole(const Field& field, int& value, const WholeRule& rule) override {
    put(field, value == 0 && !rule.zero.empty() ? word(rule.zero) : numeral(value));
  }
  void seed(const Field& field, std::uint64_t& value) override { put(field, numeral(value)); }
  void number(const Field& field, double& value, const NumberRule& /*rule*/) override {
    put(field, numeral(value));
  }
  void flag(const Field& field, bool& value) override { put(field, numeral(value)); }
  void choice(const Field& field, int& value, const std::vector<std::string>& words) override {
    put(field, word(words.at(static_cast<std::size_t>(value))));
  }
  void duration(const Field& field, Duration& value, const DurationRule& rule) override {
    const bool zero = value.count() == 0 && !rule.zero.empty();
    put(field, word(zero ? std::string(rule.zero) : formatDuration(value)));
  }
  void bytes(const Field& field, std::int64_t& value) override {
    put(field, value == 0 ? numeral(0) : word(formatBytes(value)));
  }
  void texts(const Field& field, std::vector<std::string>& value) override {
    put(field, listOfWords(value));
  }
  void wholes(const Field& field, std::vector<int>& value, const WholeRule& /*rule*/) override {
    std::vector<TreeNode> items;
    items.reserve(value.size());
    for (const int item : value) items.push_back(numeral(item));
    put(field, listOfNodes(std::move(items)));
  }
  void command(const Field& field, std::vector<std::string>& value) override {
    put(field, listOfWords(value));
  }
  void namedTexts(const Field& field, std::map<std::string, std::string>& value,
                  const NameRule& /*rule*/) override {
    TreeNode map = TreeNode::map({});
    for (const auto& [name, text] : value) map.children.push_back(keyed(name, word(text)));
    put(field, std::move(map));
  }
  void sync(const Field& field, Sync& value, const VisitFields& visit) override {
    if (const std::string_view named = rulesOf(value.mode).word; !named.empty()) {
      return put(field, word(named));
    }
    TreeWriter inner(nullptr);
    visit(inner);
    put(field, inner.take());
  }
  void object(const Field& field, const ObjectRule& rule, const VisitFields& visit) override {
    if (!short_) {
      put(field, full(visit));
      return;
    }
    const TreeNode* default_object = defaults_->find(field.name);
    const bool wanted = always_.count(std::string(field.name)) != 0;
    if (!wanted && sameContent(full(visit), *default_object)) return;
    TreeWriter inner(default_object, {rule.required.begin(), rule.required.end()});
    visit(inner);
    add(field, shortened(inner.take(), rule.shorthand));
  }
  void objects(const Field& field, const ObjectRule& /*rule*/, const ObjectList& list) override {
    const TreeNode default_object = full(list.visit_default);
    std::vector<TreeNode> items;
    for (std::size_t i = 0; i < list.size(); ++i) {
      TreeWriter inner(short_ ? &default_object : nullptr);
      list.visit(inner, i);
      items.push_back(inner.take());
    }
    put(field, listOfNodes(std::move(items)));
  }
  void namedObjects(const Field& field, const ObjectRule& rule, const NameRule& /*names*/,
                    const NamedObjects& list) override {
    const TreeNode default_object = full(list.visit_default);
    TreeNode map = TreeNode::map({});
    for (std::size_t i = 0; i < list.size(); ++i) {
      TreeWriter inner(short_ ? &default_object : nullptr);
      list.visit(inner, i);
      map.children.push_back(keyed(list.name(i), shortened(inner.take(), rule.shorthand)));
    }
    put(field, std::move(map));
  }
  void tree(const Field& field, TreeNode& value, const TreeRule& /*rule*/) override {
    put(field, value);
  }
  void alias(const Field& /*field*/, std::string_view /*path*/,
             const std::vector<std::string>& /*before*/) override {}

 private:
  static TreeNode keyed(std::string_view name, TreeNode node) {
    node.key = name;
    return node;
  }

  static TreeNode full(const VisitFields& visit) {
    TreeWriter writer(nullptr);
    visit(writer);
    return writer.take();
  }

  void add(const Field& field, TreeNode node) {
    map_.children.push_back(keyed(field.name, std::move(node)));
  }

  void put(const Field& field, TreeNode node) {
    const TreeNode* usual = short_ ? defaults_->find(field.name) : nullptr;
    const bool wanted = always_.count(std::string(field.name)) != 0;
    if (usual == nullptr || wanted || !sameContent(node, *usual)) add(field, std::move(node));
  }

  const TreeNode* defaults_;
  bool short_;
  std::set<std::string> always_;
  TreeNode map_ = TreeNode::map({});
};

}  // namespace

TreeNode fullTree(const VisitFields& visit) {
  TreeWriter writer(nullptr);
  visit(writer);
  return writer.take();
}

TreeNode fullTree(const Job& job) {
  Job copy = job;
  return fullTree([&](FieldVisitor& visitor) { visitJob(visitor, copy); });
}

TreeNode shortTree(const Job& job) {
  const TreeNode defaults = fullTree(Job{});
  std::set<std::string> always{"name", "strategy"};
  // With `gpus` the workers are left to the plan, and giving both is refused.
  if (job.gpus == 0) always.insert("workers");
  TreeWriter writer(&defaults, std::move(always));
  Job copy = job;
  visitJob(writer, copy);
  return writer.take();
}

}  // namespace dure::spec
