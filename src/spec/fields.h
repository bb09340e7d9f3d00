#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "spec/job.h"
#include "spec/tree.h"

namespace dure::spec {

struct Field {
  std::string_view name;
  std::string_view doc;      // what it is, in a sentence or two of Markdown
  std::string_view example;  // as YAML; empty where name and default say enough
};

struct WholeRule {
  std::int64_t min = 0;
  std::int64_t max = std::numeric_limits<int>::max();
  std::string_view zero;  // the word for 0, which is then not written as a number
};

// The `min` of numbers that may be anything.
inline constexpr double kAnyNumber = std::numeric_limits<double>::lowest();

struct NumberRule {
  double min = 0;
  bool above = false;  // `min` itself is not allowed
};

struct DurationRule {
  std::string_view zero;  // the word for 0; a 0 is understood as well
};

struct TextRule {
  std::vector<std::string> words;  // the only values, unless empty
  bool (*valid)(std::string_view text) = nullptr;
  std::string_view must;     // what `valid` asks for: "be an absolute path"
  std::string_view pattern;  // the same as a regular expression, where it is one
};

// Of the names in a map of texts.
struct NameRule {
  std::string (*problem)(std::string_view name);  // "must …"; empty if there is none
  std::string_view pattern;                       // the same as a regular expression
};

struct ObjectRule {
  // A scalar in place of the object stands for an object with these fields set to it.
  std::vector<std::string> shorthand;
  std::vector<std::string> required;
};

// Of a piece of the document that is read later.
struct TreeRule {
  std::vector<std::string> kinds;  // the ways to write it: "a text", "a list of texts"
  bool scalar = false;
  bool list = false;
  bool map = false;
  std::string_view schema;  // the same as a JSON Schema
};

class FieldVisitor;
using VisitFields = std::function<void(FieldVisitor&)>;

// A list of objects of any one type.
struct ObjectList {
  std::function<std::size_t()> size;
  std::function<void()> append;
  std::function<void(FieldVisitor&, std::size_t index)> visit;
  VisitFields visit_default;  // an object that is in no list
};

// Objects of any one type by their names, in the order in which they were written.
struct NamedObjects {
  std::function<std::size_t()> size;
  std::function<std::string(std::size_t index)> name;
  std::function<void(const std::string& name)> append;
  std::function<void(FieldVisitor&, std::size_t index)> visit;
  VisitFields visit_default;  // an object that has no name
};

// Sees every field of a job or a pipeline, in the order of the documentation, with one call per
// field. A visitor may read the value, or write it.
class FieldVisitor {
 public:
  virtual ~FieldVisitor() = default;

  virtual void text(const Field& field, std::string& value, const TextRule& rule) = 0;
  virtual void whole(const Field& field, int& value, const WholeRule& rule) = 0;
  virtual void seed(const Field& field, std::uint64_t& value) = 0;
  virtual void number(const Field& field, double& value, const NumberRule& rule) = 0;
  virtual void flag(const Field& field, bool& value) = 0;
  // `value` is an index into `words`.
  virtual void choice(const Field& field, int& value, const std::vector<std::string>& words) = 0;
  virtual void duration(const Field& field, Duration& value, const DurationRule& rule) = 0;
  virtual void bytes(const Field& field, std::int64_t& value) = 0;
  virtual void texts(const Field& field, std::vector<std::string>& value) = 0;
  virtual void wholes(const Field& field, std::vector<int>& value, const WholeRule& rule) = 0;
  // The words of a program, or one line for a shell.
  virtual void command(const Field& field, std::vector<std::string>& value) = 0;
  virtual void namedTexts(const Field& field, std::map<std::string, std::string>& value,
                          const NameRule& rule) = 0;
  // One of syncWords(), or an object with the fields that `visit` visits, that of kSyncObject among
  // them.
  virtual void sync(const Field& field, Sync& value, const VisitFields& visit) = 0;
  virtual void object(const Field& field, const ObjectRule& rule, const VisitFields& visit) = 0;
  virtual void objects(const Field& field, const ObjectRule& rule, const ObjectList& list) = 0;
  virtual void namedObjects(const Field& field, const ObjectRule& rule, const NameRule& names,
                            const NamedObjects& list) = 0;
  // Taken as it is. Nothing, as in `default:`, counts as not given.
  virtual void tree(const Field& field, TreeNode& value, const TreeRule& rule) = 0;
  // Another way to write the field at `path`, which has been visited already or will be. With words
  // to stand before it, it is a text and stands for a list of them and itself.
  virtual void alias(const Field& field, std::string_view path,
                     const std::vector<std::string>& before) = 0;
  void alias(const Field& field, std::string_view path) { alias(field, path, {}); }

  // For an enumeration whose values are those of `words`, in their order.
  template <typename Enum>
  void choiceOf(const Field& field, Enum& value, const std::vector<std::string>& words) {
    int index = static_cast<int>(value);
    choice(field, index, words);
    value = static_cast<Enum>(index);
  }
};

// The one definition of the job file: parser, printer, schema, documentation and completion are
// visitors of it, and the defaults are those of `Job`.
void visitJob(FieldVisitor& visitor, Job& job);
// What one task needs, for whatever else has tasks.
void visitResources(FieldVisitor& visitor, Resources& resources);
// A text that is empty or the name of an object in Kubernetes.
TextRule objectNameRule();
// What only a run in a cluster has, likewise.
void visitCluster(FieldVisitor& visitor, Cluster& cluster);

// What is wrong with the name of an environment variable, as "must …"; empty if nothing is.
std::string environmentNameProblem(std::string_view name);
inline constexpr std::string_view kEnvironmentNamePattern = "^(?!DURE_)[^=\\u0000-\\u001f]{1,255}$";

// The same for the key of a label of a node: "disk", "example.com/disk".
std::string labelKeyProblem(std::string_view key);
inline constexpr std::size_t kMaxLabelKeyLength = 317;
inline constexpr std::string_view kLabelKeyPattern =
    "^(?=.{1,317}$)[A-Za-z0-9]([-_./A-Za-z0-9]*[A-Za-z0-9])?$";

// What every JSON reader can carry exactly.
inline constexpr std::int64_t kMaxSeed = (std::int64_t{1} << 53) - 1;

// Whether a volume can be mounted there: a path, absolute or not, that stays where it begins.
bool isVolumePath(std::string_view text);
// Of an object of Kubernetes.
bool isObjectName(std::string_view text);

bool isJobName(std::string_view text);
inline constexpr std::size_t kMaxNameLength = 40;

}  // namespace dure::spec
