#include "spec/yaml_reader.h"

#include <fmt/core.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <map>
#include <sstream>
#include <unordered_set>
#include <utility>

#include "base/text.h"

namespace dure::spec {
namespace {

// Thrown through the YAML parser to end it at the first thing that is wrong.
struct Stop {
  Position at;
  std::string message;
};

// The text cut into lines, to look at what a mark points to.
class Lines {
 public:
  explicit Lines(std::string_view text) : text_(text) {
    begins_.push_back(0);
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '\n') begins_.push_back(i + 1);
    }
  }

  std::string_view from(const YAML::Mark& mark) const {
    const auto line = static_cast<std::size_t>(mark.line);
    if (mark.line < 0 || mark.column < 0 || line >= begins_.size()) return {};
    const std::size_t offset = begins_[line] + static_cast<std::size_t>(mark.column);
    return offset < text_.size() ? text_.substr(offset) : std::string_view();
  }

  Position positionOf(std::size_t offset) const {
    const auto next = std::upper_bound(begins_.begin(), begins_.end(), offset);
    return {0, static_cast<int>(next - begins_.begin()),
            static_cast<int>(offset - *(next - 1)) + 1};
  }

 private:
  std::string_view text_;
  std::vector<std::size_t> begins_;
};

// The parser turns the escapes \_ and \N into one byte each, where UTF-8 has two.
std::string repaired(const std::string& value) {
  std::string text;
  std::string_view rest = value;
  while (const auto offset = findInvalidUtf8(rest)) {
    text += rest.substr(0, *offset);
    text += '\xC2';
    text += rest[*offset];
    rest.remove_prefix(*offset + 1);
  }
  text += rest;
  return text;
}

class TreeBuilder : public YAML::EventHandler {
 public:
  explicit TreeBuilder(const Lines& lines) : lines_(lines) {}

  std::optional<TreeNode> takeRoot() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (started_) {
      stop(mark, lines_.from(mark).starts_with("---")
                     ? "a second document begins here; a job is one document"
                     : "not valid YAML: nothing can follow what ended before this");
    }
    started_ = true;
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    TreeNode node;
    node.at = position(mark);
    // The parser does not tell `null` from nothing at all, but a word for a program must be kept as
    // it was written.
    const std::string_view rest = lines_.from(mark);
    for (const std::string_view word : {"~", "null", "Null", "NULL"}) {
      if (rest.starts_with(word)) node.text = word;
    }
    add(std::move(node), anchor);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end()) stop(mark, "an alias inside of what it stands for");
    const Anchored& anchored = found->second;
    if (open_.size() + anchored.depth > kMaxDepth) stop(mark, tooDeep());
    charge(position(mark), anchored.nodes, anchored.bytes);
    TreeNode node = anchored.node;
    node.at = position(mark);
    attach(std::move(node));
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    checkTag(mark, tag);
    const bool quoted = tag == "!" || tag == "tag:yaml.org,2002:str";
    add(TreeNode::scalar(repaired(value), position(mark), quoted), anchor);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value /*style*/) override {
    checkTag(mark, tag);
    open(mark, TreeNode::Kind::kList, anchor);
  }
  void OnSequenceEnd() override { close(); }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value /*style*/) override {
    checkTag(mark, tag);
    open(mark, TreeNode::Kind::kMap, anchor);
  }
  void OnMapEnd() override { close(); }

 private:
  struct Open {
    TreeNode node;
    YAML::anchor_t anchor = 0;
    std::optional<TreeNode> key;
    std::unordered_set<std::string> keys;
  };
  struct Anchored {
    TreeNode node;
    std::size_t nodes = 0;
    std::size_t bytes = 0;
    std::size_t depth = 0;
  };

  static Position position(const YAML::Mark& mark) {
    return {0, std::max(mark.line, 0) + 1, std::max(mark.column, 0) + 1};
  }
  [[noreturn]] static void stop(const YAML::Mark& mark, std::string message) {
    throw Stop{position(mark), std::move(message)};
  }
  static std::string tooDeep() { return fmt::format("nested more than {} deep", kMaxDepth); }

  static void checkTag(const YAML::Mark& mark, const std::string& tag) {
    if (tag.empty() || tag == "?" || tag == "!" || tag.starts_with("tag:yaml.org,2002:")) return;
    stop(mark, fmt::format("the tag {} has no meaning here", tag));
  }

  void charge(Position at, std::size_t nodes, std::size_t bytes) {
    nodes_ += nodes;
    bytes_ += bytes;
    if (nodes_ <= kMaxNodes && bytes_ <= kMaxTextBytes) return;
    throw Stop{at, fmt::format("too large: more than {} values or {} bytes, aliases included",
                               kMaxNodes, kMaxTextBytes)};
  }

  static void measure(const TreeNode& node, std::size_t depth, Anchored& into) {
    ++into.nodes;
    into.bytes += node.text.size() + node.key.size();
    into.depth = std::max(into.depth, depth);
    for (const TreeNode& child : node.children) measure(child, depth + 1, into);
  }

  void open(const YAML::Mark& mark, TreeNode::Kind kind, YAML::anchor_t anchor) {
    if (open_.size() >= kMaxDepth) stop(mark, tooDeep());
    charge(position(mark), 1, 0);
    Open entry;
    entry.node.kind = kind;
    entry.node.at = position(mark);
    entry.anchor = anchor;
    open_.push_back(std::move(entry));
  }

  void close() {
    Open entry = std::move(open_.back());
    open_.pop_back();
    remember(entry.node, entry.anchor);
    attach(std::move(entry.node));
  }

  void add(TreeNode node, YAML::anchor_t anchor) {
    charge(node.at, 1, node.text.size());
    remember(node, anchor);
    attach(std::move(node));
  }

  void remember(const TreeNode& node, YAML::anchor_t anchor) {
    if (anchor == 0) return;
    Anchored anchored;
    measure(node, 1, anchored);
    charge(node.at, anchored.nodes, anchored.bytes);
    anchored.node = node;
    anchors_[anchor] = std::move(anchored);
  }

  void attach(TreeNode node) {
    if (open_.empty()) {
      root_ = std::move(node);
      return;
    }
    Open& parent = open_.back();
    if (parent.node.kind == TreeNode::Kind::kMap && !parent.key) {
      attachKey(parent, std::move(node));
      return;
    }
    if (parent.key) {
      node.key = parent.key->text;
      node.key_at = parent.key->at;
      parent.key.reset();
    }
    parent.node.children.push_back(std::move(node));
  }

  static void attachKey(Open& parent, TreeNode key) {
    if (!key.isScalar() && !key.isNothing()) throw Stop{key.at, "a list or map cannot be a name"};
    if (key.text == "<<" && !key.quoted) {
      throw Stop{key.at, "merge keys (<<) are not supported; write the fields out"};
    }
    if (!parent.keys.insert(key.text).second) {
      throw Stop{key.at, fmt::format("{}: is given twice", key.text)};
    }
    // The mark of a missing value is that of the token after it, and the word there was not its
    // own.
    if (auto& before = parent.node.children;
        !before.empty() && before.back().isNothing() && before.back().at == key.at) {
      before.back().text.clear();
    }
    parent.key = std::move(key);
  }

  const Lines& lines_;
  bool started_ = false;
  std::optional<TreeNode> root_;
  std::vector<Open> open_;
  std::map<YAML::anchor_t, Anchored> anchors_;
  std::size_t nodes_ = 0;
  std::size_t bytes_ = 0;
};

// Bytes that YAML does not allow and the parser would take for the end of the text or for UTF-16.
void checkBytes(std::string_view text, const Lines& lines) {
  if (const auto offset = findInvalidUtf8(text)) {
    throw Stop{lines.positionOf(*offset),
               fmt::format("not UTF-8: byte 0x{:02x}", static_cast<unsigned char>(text[*offset]))};
  }
  const auto forbidden = std::find_if(text.begin(), text.end(), [](unsigned char c) {
    return (c < 0x20 && c != '\t' && c != '\n' && c != '\r') || c == 0x7F;
  });
  if (forbidden != text.end()) {
    throw Stop{lines.positionOf(static_cast<std::size_t>(forbidden - text.begin())),
               fmt::format("control character 0x{:02x}", static_cast<unsigned char>(*forbidden))};
  }
}

std::optional<TreeNode> build(std::string_view text) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  const Lines lines(text);
  checkBytes(text, lines);
  try {
    // The parser takes a quote that is still open after the last newline for a closed one; with a
    // comment behind that newline it does not.
    std::istringstream stream{std::string(text) + (text.ends_with('\n') ? "#" : "\n#")};
    YAML::Parser parser(stream);
    TreeBuilder builder(lines);
    while (parser.HandleNextDocument(builder)) continue;
    return builder.takeRoot();
  } catch (const YAML::Exception& error) {
    const bool placed = error.mark.line >= 0;
    throw Stop{placed ? Position{0, error.mark.line + 1, error.mark.column + 1} : Position{},
               "not valid YAML: " + error.msg};
  }
}

void setSource(TreeNode& node, int source) {
  node.at = {source, 0, 0};
  node.key_at = {source, 0, 0};
  for (TreeNode& child : node.children) setSource(child, source);
}

}  // namespace

std::optional<TreeNode> readTree(std::string_view text, int source,
                                 std::vector<Finding>& findings) {
  try {
    std::optional<TreeNode> root = build(text);
    if (root && source != 0) setSource(*root, source);
    if (root && !root->isNothing()) return root;
    findings.push_back({{source, 0, 0}, "", "is empty"});
  } catch (const Stop& stop) {
    findings.push_back({source == 0 ? stop.at : Position{source, 0, 0}, "", stop.message});
  }
  return std::nullopt;
}

}  // namespace dure::spec
