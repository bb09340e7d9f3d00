#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "spec/tree.h"

namespace dure::spec {

struct Place {
  Position at;
  std::string shown;  // the path as the person wrote it
};

// Which fields of a job were given, where, and which of them could not be read.
class FieldPlaces {
 public:
  void give(const std::string& path, Place place) { given_[path] = std::move(place); }
  void breakAt(const std::string& path) { broken_.insert(path); }

  bool has(const std::string& path) const { return given_.count(path) != 0; }
  // Of the field, or else of the nearest section around it that was given; then `shown` is `path`.
  Place find(const std::string& path) const;
  // Whether everything at, in and around `path` could be read, so that its value means something.
  bool sound(std::string_view path) const;
  bool allSound() const { return broken_.empty(); }

 private:
  std::map<std::string, Place> given_;
  std::set<std::string> broken_;
};

}  // namespace dure::spec
