#include "spec/catalog.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "base/text.h"
#include "spec/fields.h"

namespace dure::spec {
namespace {

std::string rangeText(const WholeRule& rule) {
  if (rule.max >= std::numeric_limits<int>::max()) return fmt::format("{} or more", rule.min);
  return fmt::format("{} to {}", rule.min, rule.max);
}

// Paths end in a name; those of list elements have the list's path before it.
std::string leafOf(const std::string& path) { return path.substr(path.rfind('.') + 1); }

// One letter of two may be wrong in anything.
bool isGuess(const std::string& name, const std::string& near) {
  return name != near && name.size() < 3;
}

class CatalogWriter : public FieldVisitor {
 public:
  CatalogWriter() {
    FieldEntry job;
    job.kinds = {"a map of fields"};
    entries_.push_back(job);
  }

  std::vector<FieldEntry> take() { return std::move(entries_); }

  void text(const Field& field, std::string& /*value*/, const TextRule& rule) override {
    add(field, rule.words.empty() ? std::vector<std::string>{"a text"} : rule.words);
  }
  void whole(const Field& field, int& /*value*/, const WholeRule& rule) override {
    FieldEntry& entry = add(field, {"a whole number"});
    if (!rule.zero.empty()) entry.kinds.emplace_back(rule.zero);
    entry.range = rangeText(rule);
  }
  void seed(const Field& field, std::uint64_t& /*value*/) override {
    add(field, {"a whole number"}).range = fmt::format("0 to {}", kMaxSeed);
  }
  void number(const Field& field, double& /*value*/, const NumberRule& rule) override {
    FieldEntry& entry = add(field, {"a number"});
    if (rule.min == kAnyNumber) return;
    entry.range =
        rule.above ? fmt::format("above {}", rule.min) : fmt::format("{} or more", rule.min);
  }
  void flag(const Field& field, bool& /*value*/) override { add(field, {"true", "false"}); }
  void choice(const Field& field, int& /*value*/, const std::vector<std::string>& words) override {
    add(field, words);
  }
  void duration(const Field& field, Duration& /*value*/, const DurationRule& rule) override {
    FieldEntry& entry = add(field, {"a duration (30s, 1h30m)"});
    if (!rule.zero.empty()) entry.kinds.emplace_back(rule.zero);
  }
  void bytes(const Field& field, std::int64_t& /*value*/) override {
    add(field, {"a size (512Mi, 2Gi)"});
  }
  void texts(const Field& field, std::vector<std::string>& /*value*/) override {
    add(field, {"a list of texts"});
  }
  void wholes(const Field& field, std::vector<int>& /*value*/, const WholeRule& rule) override {
    add(field, {"a list of whole numbers"}).range = rangeText(rule);
  }
  void command(const Field& field, std::vector<std::string>& /*value*/) override {
    add(field, {"a list of words", "a line for the shell"});
  }
  void namedTexts(const Field& field, std::map<std::string, std::string>& /*value*/,
                  const NameRule& /*rule*/) override {
    add(field, {"a map of texts"}).any_name = true;
  }
  void sync(const Field& field, Sync& /*value*/, const VisitFields& visit) override {
    add(field, syncWords()).words_or_object = true;
    inside(visit);
  }
  void object(const Field& field, const ObjectRule& rule, const VisitFields& visit) override {
    add(field, {}).shorthand = rule.shorthand;
    inside(visit);
  }
  void objects(const Field& field, const ObjectRule& /*rule*/, const ObjectList& list) override {
    add(field, {"a list of maps"});
    const bool outer = std::exchange(in_list_, true);
    inside(list.visit_default);
    in_list_ = outer;
  }
  void namedObjects(const Field& field, const ObjectRule& rule, const NameRule& /*names*/,
                    const NamedObjects& list) override {
    add(field, {"a map of maps"}).shorthand = rule.shorthand;
    const bool outer = std::exchange(in_list_, true);
    inside(list.visit_default);
    in_list_ = outer;
  }
  void tree(const Field& field, TreeNode& /*value*/, const TreeRule& rule) override {
    add(field, rule.kinds);
  }
  void alias(const Field& field, std::string_view path,
             const std::vector<std::string>& before) override {
    FieldEntry& entry = add(field, {});
    entry.alias_of = path;
    entry.before = before;
  }

 private:
  FieldEntry& add(const Field& field, std::vector<std::string> kinds) {
    entries_[parent_].children.emplace_back(field.name);
    FieldEntry entry;
    entry.path = joinPath(entries_[parent_].path, field.name);
    entry.kinds = std::move(kinds);
    entry.doc = field.doc;
    entry.example = field.example;
    entry.in_list = in_list_;
    entries_.push_back(std::move(entry));
    return entries_.back();
  }

  // The fields of the object that was added last.
  void inside(const VisitFields& visit) {
    const std::size_t outer = std::exchange(parent_, entries_.size() - 1);
    const std::size_t self = parent_;
    visit(*this);
    parent_ = outer;
    FieldEntry& entry = entries_[self];
    if (!entry.kinds.empty() && !entry.words_or_object) return;
    if (entry.shorthand.empty() && !entry.words_or_object) {
      entry.kinds = {"a map of fields"};
      return;
    }
    if (!entry.shorthand.empty()) {
      const std::string first = joinPath(entry.path, entry.shorthand.front());
      const auto scalar = std::find_if(entries_.begin(), entries_.end(),
                                       [&](const FieldEntry& e) { return e.path == first; });
      entry.kinds = scalar->kinds;
      entry.range = scalar->range;
    }
    // The first few give the idea; the documentation has them all.
    constexpr std::ptrdiff_t kShown = 3;
    const auto count = static_cast<std::ptrdiff_t>(entry.children.size());
    const std::vector<std::string> shown(entry.children.begin(),
                                         entry.children.begin() + std::min(kShown, count));
    entry.kinds.push_back(fmt::format("{{{}{}}}", join(shown, ", "), count > kShown ? ", …" : ""));
  }

  std::vector<FieldEntry> entries_;
  std::size_t parent_ = 0;
  bool in_list_ = false;
};

}  // namespace

Catalog::Catalog(const VisitFields& visit) {
  CatalogWriter writer;
  visit(writer);
  entries_ = writer.take();
}

const FieldEntry* Catalog::find(std::string_view path) const {
  for (const FieldEntry& entry : entries_) {
    if (entry.path == path) return &entry;
  }
  return nullptr;
}

const Catalog& jobCatalog() {
  static const Catalog catalog([](FieldVisitor& visitor) {
    Job job;
    visitJob(visitor, job);
  });
  return catalog;
}

const std::vector<FieldEntry>& fieldCatalog() { return jobCatalog().entries(); }

const FieldEntry* findField(std::string_view path) { return jobCatalog().find(path); }

std::vector<std::string> jobFieldPaths() {
  std::vector<std::string> paths;
  for (const FieldEntry& entry : fieldCatalog()) {
    if (!entry.path.empty() && !entry.in_list) paths.push_back(entry.path);
  }
  return paths;
}

std::optional<std::string> Catalog::suggest(const std::string& parent,
                                            const std::string& name) const {
  if (name.empty()) return std::nullopt;
  if (const FieldEntry* object = find(parent)) {
    const auto sibling = closest(name, object->children);
    if (sibling && !isGuess(name, *sibling)) return joinPath(parent, *sibling);
  }
  std::vector<std::string> leaves;
  for (const FieldEntry& entry : entries_) leaves.push_back(leafOf(entry.path));
  const auto near = closest(name, leaves);
  if (!near || isGuess(name, *near)) return std::nullopt;
  const auto found = std::find(leaves.begin(), leaves.end(), *near);
  return entries_[static_cast<std::size_t>(found - leaves.begin())].path;
}

std::optional<std::string> suggestField(const std::string& parent, const std::string& name) {
  return jobCatalog().suggest(parent, name);
}

std::string joinPath(std::string_view parent, std::string_view name) {
  return parent.empty() ? std::string(name) : fmt::format("{}.{}", parent, name);
}

std::string alternatives(const std::vector<std::string>& words) {
  if (words.size() < 2) return join(words, "");
  const std::vector<std::string> front(words.begin(), words.end() - 1);
  return join(front, ", ") + " or " + words.back();
}

}  // namespace dure::spec
