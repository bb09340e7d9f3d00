#include "pipeline/references.h"

#include <fmt/core.h>

#include "base/text.h"

namespace dure::pipeline {
namespace {

constexpr std::string_view kOpen = "${{";
constexpr std::string_view kClose = "}}";
constexpr std::string_view kStepsPrefix = "steps.";

std::string trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return std::string(text);
}

struct Span {
  std::size_t begin = 0;
  std::size_t end = 0;  // npos: it is not closed
  std::string name;
};

// The next reference at or after `from`.
std::optional<Span> nextSpan(std::string_view text, std::size_t from) {
  while (true) {
    const std::size_t begin = text.find(kOpen, from);
    if (begin == std::string_view::npos) return std::nullopt;
    if (begin > 0 && text[begin - 1] == '$') {
      from = begin + kOpen.size();
      continue;
    }
    const std::size_t close = text.find(kClose, begin + kOpen.size());
    if (close == std::string_view::npos) return Span{begin, close, ""};
    const std::size_t inside = begin + kOpen.size();
    return Span{begin, close + kClose.size(), trimmed(text.substr(inside, close - inside))};
  }
}

}  // namespace

std::vector<std::string> referencesIn(std::string_view text) {
  std::vector<std::string> names;
  std::size_t at = 0;
  while (const auto span = nextSpan(text, at)) {
    if (span->end == std::string_view::npos) break;
    names.push_back(span->name);
    at = span->end;
  }
  return names;
}

std::optional<std::string> soleReference(std::string_view text) {
  const auto span = nextSpan(text, 0);
  if (!span || span->begin != 0 || span->end != text.size()) return std::nullopt;
  return span->name;
}

bool hasOpenReference(std::string_view text) {
  std::size_t at = 0;
  while (const auto span = nextSpan(text, at)) {
    if (span->end == std::string_view::npos) return true;
    at = span->end;
  }
  return false;
}

std::string substitute(std::string_view text, const Lookup& lookup, bool for_shell) {
  std::string out;
  std::size_t at = 0;
  while (const auto span = nextSpan(text, at)) {
    if (span->end == std::string_view::npos) break;
    out += text.substr(at, span->begin - at);
    if (const auto value = lookup(span->name)) {
      out += for_shell ? shellQuote(*value) : *value;
    } else {
      out += text.substr(span->begin, span->end - span->begin);
    }
    at = span->end;
  }
  return out += text.substr(at);
}

std::string unescape(std::string_view text) {
  std::string out;
  std::size_t at = 0;
  for (std::size_t found; (found = text.find("$${{", at)) != std::string_view::npos;
       at = found + 1) {
    out += text.substr(at, found - at);
  }
  return out += text.substr(at);
}

std::string escape(std::string_view text) {
  std::string out;
  std::size_t at = 0;
  for (std::size_t found; (found = text.find(kOpen, at)) != std::string_view::npos;
       at = found + kOpen.size()) {
    out += text.substr(at, found - at);
    out += "$${{";
  }
  return out += text.substr(at);
}

void substituteTree(spec::TreeNode& node, const Lookup& lookup) {
  if (node.isScalar()) {
    // What is one reference and nothing else is what it refers to, a number or a text, whether or
    // not somebody has put quotes around it.
    const auto name = soleReference(node.text);
    if (name && lookup(*name)) node.quoted = false;
    node.text = substitute(node.text, lookup, node.key == "command");
  }
  for (spec::TreeNode& child : node.children) substituteTree(child, lookup);
}

void unescapeTree(spec::TreeNode& node) {
  if (node.isScalar()) node.text = unescape(node.text);
  for (spec::TreeNode& child : node.children) unescapeTree(child);
}

void forEachScalar(const spec::TreeNode& node, const std::string& path,
                   const std::function<void(const spec::TreeNode&, const std::string&)>& see) {
  if (node.isScalar()) see(node, path);
  for (std::size_t i = 0; i < node.children.size(); ++i) {
    const spec::TreeNode& child = node.children[i];
    const std::string inner = node.isMap() ? (path.empty() ? child.key : path + "." + child.key)
                                           : fmt::format("{}[{}]", path, i);
    forEachScalar(child, inner, see);
  }
}

std::optional<std::string> stepOfReference(const std::string& name) {
  if (!name.starts_with(kStepsPrefix)) return std::nullopt;
  return name.substr(kStepsPrefix.size());
}

}  // namespace dure::pipeline
