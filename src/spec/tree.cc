#include "spec/tree.h"

#include <algorithm>
#include <utility>

namespace dure::spec {

const TreeNode* TreeNode::find(std::string_view wanted) const {
  const auto found = std::find_if(children.begin(), children.end(),
                                  [&](const TreeNode& child) { return child.key == wanted; });
  return found == children.end() || kind != Kind::kMap ? nullptr : &*found;
}

TreeNode* TreeNode::find(std::string_view wanted) {
  return const_cast<TreeNode*>(std::as_const(*this).find(wanted));
}

TreeNode& TreeNode::atKey(const std::string& wanted, Position position) {
  if (TreeNode* child = find(wanted)) return *child;
  TreeNode child;
  child.at = position;
  child.key = wanted;
  child.key_at = position;
  children.push_back(std::move(child));
  return children.back();
}

void TreeNode::remove(std::string_view wanted) {
  std::erase_if(children, [&](const TreeNode& child) { return child.key == wanted; });
}

TreeNode TreeNode::scalar(std::string text, Position at, bool quoted) {
  TreeNode node;
  node.kind = Kind::kScalar;
  node.text = std::move(text);
  node.quoted = quoted;
  node.at = at;
  return node;
}

TreeNode TreeNode::map(Position at) {
  TreeNode node;
  node.kind = Kind::kMap;
  node.at = at;
  return node;
}

bool sameContent(const TreeNode& a, const TreeNode& b) {
  if (a.kind != b.kind || a.text != b.text || a.children.size() != b.children.size()) return false;
  for (std::size_t i = 0; i < a.children.size(); ++i) {
    const TreeNode& child = a.children[i];
    const TreeNode* other = a.isMap() ? b.find(child.key) : &b.children[i];
    if (other == nullptr || !sameContent(child, *other)) return false;
  }
  return true;
}

}  // namespace dure::spec
