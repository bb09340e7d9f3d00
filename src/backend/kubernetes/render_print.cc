#include <algorithm>
#include <array>
#include <string_view>

#include "backend/kubernetes/render.h"
#include "spec/print.h"
#include "spec/tree.h"

namespace dure::kubernetes {
namespace {

using nlohmann::json;

// What people look for first comes first; the rest follows in the order of the alphabet.
std::size_t place(const std::string& key) {
  static constexpr std::array<std::string_view, 4> kFirst{"apiVersion", "kind", "metadata", "name"};
  return static_cast<std::size_t>(std::find(kFirst.begin(), kFirst.end(), key) - kFirst.begin());
}

spec::TreeNode treeOf(const json& value) {
  spec::TreeNode node;
  if (value.is_object()) {
    node.kind = spec::TreeNode::Kind::kMap;
    for (const auto& [key, child] : value.items()) {
      node.children.push_back(treeOf(child));
      node.children.back().key = key;
    }
    std::stable_sort(node.children.begin(), node.children.end(),
                     [](const spec::TreeNode& a, const spec::TreeNode& b) {
                       return place(a.key) < place(b.key);
                     });
  } else if (value.is_array()) {
    node.kind = spec::TreeNode::Kind::kList;
    for (const json& child : value) node.children.push_back(treeOf(child));
  } else if (value.is_string()) {
    node = spec::TreeNode::scalar(value.get<std::string>(), {}, true);
  } else {
    node = spec::TreeNode::scalar(value.dump(), {});
  }
  return node;
}

}  // namespace

void putInto(const std::string& name_space, std::vector<json>& objects) {
  for (json& object : objects) {
    if (object.at("kind") != "PersistentVolume") object["metadata"]["namespace"] = name_space;
  }
}

std::string printAsYaml(const std::vector<json>& objects) {
  std::string out;
  for (const json& object : objects)
    out += (out.empty() ? "" : "---\n") + spec::printTree(treeOf(object));
  return out;
}

std::string printAsJson(const std::vector<json>& objects) {
  return json{{"apiVersion", "v1"}, {"kind", "List"}, {"items", objects}}.dump(2) + "\n";
}

}  // namespace dure::kubernetes
