#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace dure::spec {

// Where something was written. Source 0 is the file, 1 and up are the overrides in their order.
// Lines and columns begin at 1 (a column is a byte of its line); 0 means no particular one.
struct Position {
  int source = 0;
  int line = 0;
  int column = 0;
  bool operator==(const Position&) const = default;
};

// Something wrong at a position, before its source has a name to show.
struct Finding {
  Position at;
  std::string field;
  std::string message;
};

// A piece of a document: a scalar, a list, a map, or nothing at all. A map's children have keys,
// each of them once.
struct TreeNode {
  enum class Kind { kNothing, kScalar, kList, kMap };

  Kind kind = Kind::kNothing;
  std::string text;     // of a scalar; of kNothing, the word that said so: "", "~" or "null"
  bool quoted = false;  // a scalar that can be nothing but text
  Position at;
  std::string key;
  Position key_at;
  std::string written_as;  // the path it was written at, if it has been moved since
  std::vector<TreeNode> children;

  bool isScalar() const { return kind == Kind::kScalar; }
  bool isMap() const { return kind == Kind::kMap; }
  bool isNothing() const { return kind == Kind::kNothing; }
  // The child with this key; nullptr if there is none. Valid until `children` changes.
  const TreeNode* find(std::string_view wanted) const;
  TreeNode* find(std::string_view wanted);
  // The child with this key, made if need be.
  TreeNode& atKey(const std::string& wanted, Position position);
  void remove(std::string_view wanted);

  static TreeNode scalar(std::string text, Position at, bool quoted = false);
  static TreeNode map(Position at);
};

// Equal in content, wherever it was written.
bool sameContent(const TreeNode& a, const TreeNode& b);

}  // namespace dure::spec
