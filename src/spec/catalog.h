#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "spec/fields.h"

namespace dure::spec {

// What the definition in fields.cc says about one field, without its value.
struct FieldEntry {
  std::string path;                // "train.optimizer.lr"; "" is the job itself
  std::vector<std::string> kinds;  // the ways to write it: "a whole number", "{min, max}"
  std::string range;               // which of them: "1 to 10000"; empty if all
  std::string doc;
  std::string example;
  std::vector<std::string> shorthand;  // see ObjectRule
  std::vector<std::string> children;   // the names of an object's fields
  std::string alias_of;                // a path
  std::vector<std::string> before;     // the words that an alias has before it there
  bool words_or_object = false;        // an object replaces the word and shares nothing with it
  bool any_name = false;               // of texts that are found by names of any kind
  bool in_list = false;                // there are many, so the path leads to none of them
};

// What a definition says about all of its fields.
class Catalog {
 public:
  explicit Catalog(const VisitFields& visit);

  // In the order of their definition, the whole document first.
  const std::vector<FieldEntry>& entries() const { return entries_; }
  // nullptr if there is no such field.
  const FieldEntry* find(std::string_view path) const;
  // The path a person most likely meant by `name` inside of the object at `parent`.
  std::optional<std::string> suggest(const std::string& parent, const std::string& name) const;

 private:
  std::vector<FieldEntry> entries_;
};

// Of the job. Made once.
const Catalog& jobCatalog();
// All fields in the order of their definition, the job itself first.
const std::vector<FieldEntry>& fieldCatalog();
// nullptr if there is no such field.
const FieldEntry* findField(std::string_view path);

// The paths that can be set one by one: "train.epochs".
std::vector<std::string> jobFieldPaths();

// As Catalog::suggest(), among the fields of a job.
std::optional<std::string> suggestField(const std::string& parent, const std::string& name);

std::string joinPath(std::string_view parent, std::string_view name);
// "a, b or c"
std::string alternatives(const std::vector<std::string>& words);

}  // namespace dure::spec
