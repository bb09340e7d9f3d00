#include "spec/parse.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>

#include "base/text.h"
#include "spec/catalog.h"
#include "spec/fields.h"
#include "spec/scalar.h"

namespace dure::spec {
namespace {

class Parser : public FieldVisitor {
 public:
  Parser(const TreeNode& root, const Catalog& catalog, std::vector<Finding>& findings)
      : catalog_(catalog), findings_(findings) {
    frame_.node = &root;
  }

  FieldPlaces take() { return std::move(places_); }

  void text(const Field& field, std::string& value, const TextRule& rule) override {
    const auto here = take(field);
    if (!here || !isWord(*here)) return;
    const std::string& given = here->node->text;
    if (!rule.words.empty() && !isOneOf(given, rule.words)) return wrongWord(*here, rule.words);
    if (rule.valid != nullptr && !rule.valid(given)) return mustBe(*here, std::string(rule.must));
    value = given;
  }

  void whole(const Field& field, int& value, const WholeRule& rule) override {
    const auto here = take(field);
    if (!here || !hasValue(*here)) return;
    if (!rule.zero.empty() && here->node->isScalar() && here->node->text == rule.zero) {
      value = 0;
    } else if (const auto read = readWhole(*here, rule)) {
      value = *read;
    }
  }

  void seed(const Field& field, std::uint64_t& value) override {
    const auto here = take(field);
    if (!here || !hasValue(*here)) return;
    const auto read = readInteger(plain(*here->node));
    if (!read) return wrongKind(*here);
    if (*read < 0) return mustBe(*here, "be 0 or more");
    if (*read > kMaxSeed) return mustBe(*here, fmt::format("be {} or less", kMaxSeed));
    value = static_cast<std::uint64_t>(*read);
  }

  void number(const Field& field, double& value, const NumberRule& rule) override {
    const auto here = take(field);
    if (!here || !hasValue(*here)) return;
    const auto read = readNumber(plain(*here->node));
    if (!read) return wrongKind(*here);
    if (rule.above && *read <= rule.min) return mustBe(*here, fmt::format("be above {}", rule.min));
    if (*read < rule.min) return mustBe(*here, fmt::format("be {} or more", rule.min));
    value = *read;
  }

  void flag(const Field& field, bool& value) override {
    const auto here = take(field);
    if (!here || !hasValue(*here)) return;
    const std::string_view word = plain(*here->node);
    const bool yes = word == "true" || word == "True";
    if (!yes && word != "false" && word != "False") return wrongKind(*here);
    value = yes;
  }

  void choice(const Field& field, int& value, const std::vector<std::string>& words) override {
    const auto here = take(field);
    if (!here || !isWord(*here)) return;
    const auto found = std::find(words.begin(), words.end(), here->node->text);
    if (found == words.end()) return wrongWord(*here, words);
    value = static_cast<int>(found - words.begin());
  }

  void duration(const Field& field, Duration& value, const DurationRule& rule) override {
    const auto here = take(field);
    if (!here || !hasValue(*here)) return;
    const std::string word = here->node->isScalar() ? here->node->text : "";
    const bool zero = !rule.zero.empty() && (word == rule.zero || word == "none");
    const auto read = zero ? std::optional(Duration(0)) : parseDuration(word);
    if (!read) return wrongKind(*here);
    value = *read;
  }

  void bytes(const Field& field, std::int64_t& value) override {
    const auto here = take(field);
    if (!here || !hasValue(*here)) return;
    const auto read = here->node->isScalar() ? parseBytes(here->node->text) : std::nullopt;
    if (!read) return wrongKind(*here);
    value = *read;
  }

  void texts(const Field& field, std::vector<std::string>& value) override {
    const auto here = take(field);
    if (!here || !isList(*here)) return;
    value = words(*here);
    for (std::size_t i = 0; i < value.size(); ++i) {
      if (value[i].empty()) add(element(*here, i), "must not be empty");
    }
  }

  void wholes(const Field& field, std::vector<int>& value, const WholeRule& rule) override {
    const auto here = take(field);
    if (!here || !isList(*here)) return;
    value.clear();
    for (std::size_t i = 0; i < here->node->children.size(); ++i) {
      const Here item = element(*here, i);
      if (!readInteger(plain(*item.node))) {
        mustBe(item, "be a whole number");
      } else if (const auto read = readWhole(item, rule)) {
        value.push_back(*read);
      }
    }
  }

  void command(const Field& field, std::vector<std::string>& value) override {
    const auto here = take(field);
    if (!here || !hasValue(*here)) return;
    if (here->node->isScalar()) {
      if (isWord(*here)) value = {"sh", "-c", here->node->text};
    } else if (isList(*here)) {
      value = words(*here);
    }
  }

  void namedTexts(const Field& field, std::map<std::string, std::string>& value,
                  const NameRule& rule) override {
    const auto here = take(field);
    if (!here || here->node->isNothing()) return;
    if (!here->node->isMap()) return wrongKind(*here);
    for (const TreeNode& child : here->node->children) {
      Here item = *here;
      item.node = &child;
      item.path = joinPath(here->path, child.key);
      item.shown = child.written_as.empty() ? joinPath(here->shown, child.key) : child.written_as;
      places_.give(item.path, {child.key_at, item.shown});
      if (const std::string problem = rule.problem(child.key); !problem.empty()) {
        places_.breakAt(item.path);
        findings_.push_back({child.key_at, item.shown, problem});
      } else if (isText(item)) {
        value[child.key] = child.text;
      }
    }
  }

  void sync(const Field& field, Sync& value, const VisitFields& visit) override {
    const auto here = take(field);
    if (!here || !hasValue(*here)) return;
    if (here->node->isMap()) {
      value.mode = kSyncObject.mode;
      enter(*here, {.required = {std::string(kSyncObject.field)}}, *here->node, false, visit);
      return;
    }
    const auto mode =
        here->node->isScalar() ? syncModeNamed(here->node->text) : std::optional<SyncMode>();
    if (!mode) return wrongKind(*here);
    value.mode = *mode;
  }

  void object(const Field& field, const ObjectRule& rule, const VisitFields& visit) override {
    const auto here = take(field);
    if (!here) return;
    const TreeNode& node = *here->node;
    if (node.isMap()) {
      enter(*here, rule, node, false, visit);
    } else if (node.isScalar() && !rule.shorthand.empty()) {
      enter(*here, rule, expandShorthand(node, rule.shorthand), true, visit);
    } else if (!node.isNothing()) {
      wrongKind(*here);
    } else if (!rule.shorthand.empty()) {
      add(*here, "has no value");
    }
  }

  void objects(const Field& field, const ObjectRule& rule, const ObjectList& list) override {
    const auto here = take(field);
    if (!here || !isList(*here)) return;
    for (std::size_t i = 0; i < here->node->children.size(); ++i) {
      const Here item = element(*here, i);
      places_.give(item.path, {item.node->at, item.shown});
      if (!item.node->isMap()) {
        mustBe(item, "be a map of fields");
        continue;
      }
      list.append();
      const std::size_t last = list.size() - 1;
      enter(item, rule, *item.node, false, [&](FieldVisitor& v) { list.visit(v, last); });
    }
  }

  void namedObjects(const Field& field, const ObjectRule& rule, const NameRule& names,
                    const NamedObjects& list) override {
    const auto here = take(field);
    if (!here || here->node->isNothing()) return;
    if (!here->node->isMap()) return wrongKind(*here);
    for (const TreeNode& child : here->node->children) {
      const Here item{&child, joinPath(here->path, child.key), here->definition,
                      joinPath(here->shown, child.key)};
      places_.give(item.path, {child.key_at, item.shown});
      const std::string problem = names.problem(child.key);
      if (!problem.empty()) {
        places_.breakAt(item.path);
        findings_.push_back({child.key_at, item.shown, problem});
      }
      const bool shorthand = !child.isMap() && !child.isNothing() && !rule.shorthand.empty();
      if (!child.isMap() && !shorthand) {
        add(item, child.isNothing() ? "has no fields"
                                    : "must be a map of fields, got " + describeNode(child));
        continue;
      }
      list.append(child.key);
      const std::size_t last = list.size() - 1;
      named_ = true;
      enter(item, rule, shorthand ? expandShorthand(child, rule.shorthand) : child, shorthand,
            [&](FieldVisitor& v) { list.visit(v, last); });
    }
  }

  void tree(const Field& field, TreeNode& value, const TreeRule& rule) override {
    const auto here = take(field);
    if (!here || here->node->isNothing()) return;
    const bool fits = (here->node->isScalar() && rule.scalar) ||
                      (here->node->isMap() && rule.map) ||
                      (here->node->kind == TreeNode::Kind::kList && rule.list);
    if (!fits) return wrongKind(*here);
    value = *here->node;
  }

  // Aliases have been moved to what they stand for before the tree came here.
  void alias(const Field& field, std::string_view /*path*/,
             const std::vector<std::string>& /*before*/) override {
    frame_.known.emplace(field.name);
  }

  void reportUnknown() {
    for (const TreeNode& child : frame_.node->children) {
      if (frame_.known.count(child.key) != 0) continue;
      auto meant = catalog_.suggest(frame_.definition, child.key);
      // In a map by names, where its neighbours stand.
      if (meant && frame_.named && meant->starts_with(frame_.definition + ".")) {
        *meant = frame_.shown + meant->substr(frame_.definition.size());
      }
      places_.breakAt(joinPath(frame_.path, child.key));
      findings_.push_back(
          {child.key_at, joinPath(frame_.shown, child.key),
           meant ? fmt::format("unknown field; did you mean \"{}\"?", *meant) : "unknown field"});
    }
  }

 private:
  // The object whose fields are being visited.
  struct Frame {
    const TreeNode* node = nullptr;
    std::string path;
    std::string definition;  // its path in the catalog
    std::string shown;
    bool shorthand = false;
    bool named = false;  // in a map by names
    std::set<std::string> known = {};
  };

  // One field that was given.
  struct Here {
    const TreeNode* node;
    std::string path;
    std::string definition;
    std::string shown;
  };

  std::optional<Here> take(const Field& field) {
    frame_.known.emplace(field.name);
    const TreeNode* node = frame_.node->find(field.name);
    if (node == nullptr) return std::nullopt;
    Here here{node, joinPath(frame_.path, field.name), joinPath(frame_.definition, field.name),
              node->written_as};
    if (frame_.shorthand) {
      here.shown = frame_.shown;
      here.definition = frame_.definition;
    } else if (here.shown.empty()) {
      here.shown = joinPath(frame_.shown, field.name);
    }
    places_.give(here.path, {node->key_at, here.shown});
    return here;
  }

  static Here element(const Here& list, std::size_t index) {
    return {&list.node->children[index], fmt::format("{}[{}]", list.path, index), list.definition,
            fmt::format("{}[{}]", list.shown, index)};
  }

  void enter(const Here& here, const ObjectRule& rule, const TreeNode& node, bool shorthand,
             const VisitFields& visit) {
    Frame outer = std::exchange(frame_, Frame{&node, here.path, here.definition, here.shown,
                                              shorthand, std::exchange(named_, false)});
    visit(*this);
    reportUnknown();
    for (const std::string& name : rule.required) {
      if (node.find(name) != nullptr) continue;
      places_.breakAt(joinPath(here.path, name));
      const Position at = here.node->key.empty() ? here.node->at : here.node->key_at;
      findings_.push_back({at, joinPath(here.shown, name), "is missing"});
    }
    frame_ = std::move(outer);
  }

  void add(const Here& here, std::string message) {
    places_.breakAt(here.path);
    // Where there is no value, only its name has a place.
    const bool named = here.node->isNothing() && !here.node->key.empty();
    findings_.push_back(
        {named ? here.node->key_at : here.node->at, here.shown, std::move(message)});
  }

  void mustBe(const Here& here, const std::string& what) {
    add(here, fmt::format("must {}, got {}", what, describeNode(*here.node)));
  }

  void wrongKind(const Here& here) {
    mustBe(here, "be " + alternatives(catalog_.find(here.definition)->kinds));
  }

  void wrongWord(const Here& here, const std::vector<std::string>& words) {
    std::string message =
        fmt::format("must be {}, got {}", alternatives(catalog_.find(here.definition)->kinds),
                    describeNode(*here.node));
    if (const auto meant = closest(here.node->text, words)) {
      message += fmt::format("; did you mean \"{}\"?", *meant);
    }
    add(here, std::move(message));
  }

  static bool isOneOf(const std::string& text, const std::vector<std::string>& words) {
    return std::find(words.begin(), words.end(), text) != words.end();
  }

  // The text of a scalar that may be a number or a flag; empty for anything else.
  static std::string_view plain(const TreeNode& node) {
    return node.isScalar() && !node.quoted ? std::string_view(node.text) : std::string_view();
  }

  bool hasValue(const Here& here) {
    if (here.node->isNothing()) add(here, "has no value");
    return !here.node->isNothing();
  }

  bool isWord(const Here& here) { return hasValue(here) && isText(here); }

  // Also nothing at all is text: what was written, or the empty one.
  bool isText(const Here& here) {
    if (!here.node->isScalar() && !here.node->isNothing()) {
      const FieldEntry& entry = *catalog_.find(here.definition);
      const bool single = here.path.find('[') == std::string::npos && !entry.any_name;
      mustBe(here, single ? "be " + alternatives(entry.kinds) : "be a text");
      return false;
    }
    if (here.node->text.find('\0') == std::string::npos) return true;
    add(here, "must not contain a NUL character");
    return false;
  }

  bool isList(const Here& here) {
    if (here.node->kind == TreeNode::Kind::kList) return true;
    if (!here.node->isNothing()) wrongKind(here);
    return false;
  }

  std::vector<std::string> words(const Here& here) {
    std::vector<std::string> texts;
    for (std::size_t i = 0; i < here.node->children.size(); ++i) {
      const Here item = element(here, i);
      if (isText(item)) texts.push_back(item.node->text);
    }
    return texts;
  }

  std::optional<int> readWhole(const Here& here, const WholeRule& rule) {
    const auto read = readInteger(plain(*here.node));
    if (!read) {
      wrongKind(here);
    } else if (*read < rule.min) {
      mustBe(here, fmt::format("be {} or more", rule.min));
    } else if (*read > rule.max) {
      mustBe(here, fmt::format("be {} or less", rule.max));
    } else {
      return static_cast<int>(*read);
    }
    return std::nullopt;
  }

  const Catalog& catalog_;
  std::vector<Finding>& findings_;
  bool named_ = false;  // the object that is entered next has a name of its own
  FieldPlaces places_;
  Frame frame_;
};

}  // namespace

FieldPlaces parseFields(const TreeNode& root, const Catalog& catalog, const VisitFields& visit,
                        std::vector<Finding>& findings) {
  Parser parser(root, catalog, findings);
  visit(parser);
  parser.reportUnknown();
  return parser.take();
}

FieldPlaces parseJob(const TreeNode& root, Job& job, std::vector<Finding>& findings) {
  return parseFields(
      root, jobCatalog(), [&](FieldVisitor& visitor) { visitJob(visitor, job); }, findings);
}

TreeNode expandShorthand(const TreeNode& scalar, const std::vector<std::string>& names) {
  TreeNode map = TreeNode::map(scalar.at);
  map.key = scalar.key;
  map.key_at = scalar.key_at;
  map.written_as = scalar.written_as;
  for (const std::string& name : names) {
    TreeNode& child = map.atKey(name, scalar.key_at);
    child.children = scalar.children;
    child.kind = scalar.kind;
    child.text = scalar.text;
    child.quoted = scalar.quoted;
    child.at = scalar.at;
  }
  return map;
}

}  // namespace dure::spec
