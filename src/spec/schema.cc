#include "spec/schema.h"

#include <limits>
#include <utility>

#include "base/text.h"
#include "spec/catalog.h"
#include "spec/fields.h"
#include "spec/job_tree.h"

namespace dure::spec {
namespace {

using nlohmann::json;

json toJson(const TreeNode& node) {
  switch (node.kind) {
    case TreeNode::Kind::kNothing:
      return nullptr;
    case TreeNode::Kind::kScalar:
      return node.quoted ? json(node.text) : json::parse(node.text);
    case TreeNode::Kind::kList: {
      json list = json::array();
      for (const TreeNode& child : node.children) list.push_back(toJson(child));
      return list;
    }
    case TreeNode::Kind::kMap:
      break;
  }
  json map = json::object();
  for (const TreeNode& child : node.children) map[child.key] = toJson(child);
  return map;
}

// A program's words and variables are taken as they were written, numbers included.
json anyScalar() { return {{"type", {"string", "number", "boolean"}}}; }

json wholeSchema(const WholeRule& rule) {
  json schema{{"type", "integer"}, {"minimum", rule.min}};
  if (rule.max < std::numeric_limits<int>::max()) schema["maximum"] = rule.max;
  return schema;
}

json either(json a, json b) { return {{"oneOf", {std::move(a), std::move(b)}}}; }

// Where the schema of a field is in the schema of the job. Of a section with a short form, the long
// one comes second.
std::string referenceTo(std::string_view path) {
  std::string reference = "#";
  std::string here;
  for (const std::string& name : split(path, '.')) {
    const FieldEntry* outer = findField(here);
    reference += here.empty() || outer->shorthand.empty() ? "/properties/" : "/oneOf/1/properties/";
    reference += name;
    here = joinPath(here, name);
  }
  return reference;
}

// Writes the schema of one object's fields.
class SchemaWriter : public FieldVisitor {
 public:
  explicit SchemaWriter(const TreeNode* defaults) : defaults_(defaults) {}

  json take(const ObjectRule& rule = {}) {
    json schema{{"type", "object"},
                {"properties", std::move(properties_)},
                {"additionalProperties", false}};
    if (!rule.required.empty()) schema["required"] = rule.required;
    return schema;
  }

  void text(const Field& field, std::string& /*value*/, const TextRule& rule) override {
    json schema{{"type", "string"}};
    if (!rule.words.empty()) schema["enum"] = rule.words;
    if (!rule.pattern.empty()) schema["pattern"] = rule.pattern;
    put(field, std::move(schema));
  }
  void whole(const Field& field, int& /*value*/, const WholeRule& rule) override {
    const json number = wholeSchema(rule);
    put(field, rule.zero.empty() ? number : either(number, {{"const", rule.zero}}));
  }
  void seed(const Field& field, std::uint64_t& /*value*/) override {
    put(field, {{"type", "integer"}, {"minimum", 0}, {"maximum", kMaxSeed}});
  }
  void number(const Field& field, double& /*value*/, const NumberRule& rule) override {
    json schema = {{"type", "number"}};
    if (rule.min != kAnyNumber) schema[rule.above ? "exclusiveMinimum" : "minimum"] = rule.min;
    put(field, std::move(schema));
  }
  void flag(const Field& field, bool& /*value*/) override { put(field, {{"type", "boolean"}}); }
  void choice(const Field& field, int& /*value*/, const std::vector<std::string>& words) override {
    put(field, {{"type", "string"}, {"enum", words}});
  }
  void duration(const Field& field, Duration& /*value*/, const DurationRule& rule) override {
    const std::string number = "([0-9]*[.]?[0-9]+|[0-9]+[.])";
    const std::string units = "(" + number + "(ms|s|m|h|d))+|" + number;
    const std::string zero = rule.zero.empty() ? "" : "|none|" + std::string(rule.zero);
    put(field, either({{"type", "number"}, {"minimum", 0}},
                      {{"type", "string"}, {"pattern", "^(" + units + zero + ")$"}}));
  }
  void bytes(const Field& field, std::int64_t& /*value*/) override {
    put(field, either({{"type", "number"}, {"minimum", 0}},
                      {{"type", "string"},
                       {"pattern", "^([0-9]*[.]?[0-9]+|[0-9]+[.])([KMGTP]i|[kKMGTP])?$"}}));
  }
  void texts(const Field& field, std::vector<std::string>& /*value*/) override {
    put(field, {{"type", "array"}, {"items", {{"type", "string"}, {"minLength", 1}}}});
  }
  void wholes(const Field& field, std::vector<int>& /*value*/, const WholeRule& rule) override {
    put(field, {{"type", "array"}, {"items", wholeSchema(rule)}});
  }
  void command(const Field& field, std::vector<std::string>& /*value*/) override {
    put(field, either({{"type", "array"}, {"items", anyScalar()}}, {{"type", "string"}}));
  }
  void namedTexts(const Field& field, std::map<std::string, std::string>& /*value*/,
                  const NameRule& rule) override {
    put(field, {{"type", "object"},
                {"propertyNames", {{"pattern", rule.pattern}}},
                {"additionalProperties", anyScalar()}});
  }
  void sync(const Field& field, Sync& /*value*/, const VisitFields& visit) override {
    SchemaWriter inner(nullptr);
    visit(inner);
    put(field, either({{"type", "string"}, {"enum", syncWords()}},
                      inner.take({.required = {std::string(kSyncObject.field)}})));
  }
  void object(const Field& field, const ObjectRule& rule, const VisitFields& visit) override {
    SchemaWriter inner(defaults_ == nullptr ? nullptr : defaults_->find(field.name));
    visit(inner);
    if (rule.shorthand.empty()) {
      putPlain(field, inner.take(rule));
      return;
    }
    json scalar = inner.properties_[rule.shorthand.front()];
    scalar.erase("description");
    putPlain(field, either(std::move(scalar), inner.take(rule)));
  }
  void objects(const Field& field, const ObjectRule& rule, const ObjectList& list) override {
    SchemaWriter inner(nullptr);
    list.visit_default(inner);
    put(field, {{"type", "array"}, {"items", inner.take(rule)}});
  }
  void namedObjects(const Field& field, const ObjectRule& rule, const NameRule& names,
                    const NamedObjects& list) override {
    SchemaWriter inner(nullptr);
    list.visit_default(inner);
    json shorthand;
    if (!rule.shorthand.empty()) {
      shorthand = inner.properties_[rule.shorthand.front()];
      shorthand.erase("description");
    }
    json item = inner.take(rule);
    if (!rule.shorthand.empty()) item = either(std::move(shorthand), std::move(item));
    put(field, {{"type", "object"},
                {"propertyNames", {{"pattern", names.pattern}}},
                {"additionalProperties", std::move(item)}});
  }
  void tree(const Field& field, TreeNode& /*value*/, const TreeRule& rule) override {
    putPlain(field, json::parse(rule.schema));
  }
  void alias(const Field& field, std::string_view path,
             const std::vector<std::string>& before) override {
    if (before.empty()) {
      putPlain(field, {{"$ref", referenceTo(path)}});
    } else {
      putPlain(field, {{"type", "string"}});
    }
  }

 private:
  void putPlain(const Field& field, json schema) {
    schema["description"] = field.doc;
    properties_[std::string(field.name)] = std::move(schema);
  }

  void put(const Field& field, json schema) {
    const TreeNode* value = defaults_ == nullptr ? nullptr : defaults_->find(field.name);
    // An empty text is no value that could be written.
    if (value != nullptr && !(value->isScalar() && value->text.empty())) {
      schema["default"] = toJson(*value);
    }
    putPlain(field, std::move(schema));
  }

  const TreeNode* defaults_;  // the full tree of the default object; nullptr: has none
  json properties_ = json::object();
};

}  // namespace

json fieldsSchema(const VisitFields& visit, const TreeNode& defaults,
                  const std::vector<std::string>& required) {
  SchemaWriter writer(&defaults);
  visit(writer);
  return writer.take({.required = required});
}

json jobSchema() {
  Job job;
  json schema =
      fieldsSchema([&](FieldVisitor& visitor) { visitJob(visitor, job); }, fullTree(Job{}), {});
  // What it is when it is left out depends on the rest of the job.
  schema["properties"]["strategy"].erase("default");
  schema["$schema"] = "https://json-schema.org/draft/2020-12/schema";
  schema["title"] = "Dure job";
  schema["description"] = "One distributed training.";
  return schema;
}

}  // namespace dure::spec
