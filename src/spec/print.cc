#include "spec/print.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "base/text.h"
#include "spec/job_tree.h"

namespace dure::spec {
namespace {

// Text that every YAML reader takes for exactly this text, without quotes and in any place.
bool isPlain(const std::string& text) {
  static constexpr std::array kOtherMeanings{"null", "true", "false", "yes", "no",
                                             "on",   "off",  "y",     "n"};
  const auto harmless = [](unsigned char c) {
    return std::isalnum(c) != 0 ||
           std::string_view("_./-+@%").find(static_cast<char>(c)) != std::string_view::npos;
  };
  const auto first = static_cast<unsigned char>(text.empty() ? '\0' : text[0]);
  const std::size_t letter = text.find_first_not_of('-');
  const bool option =
      letter > 0 && letter <= 2 && std::isalpha(static_cast<unsigned char>(text[letter])) != 0;
  const bool begins = option || std::isalpha(first) != 0 || first == '/' || first == '_' ||
                      text == "." || text.starts_with("./") || text.starts_with("..");
  if (!begins || !std::all_of(text.begin(), text.end(), harmless)) return false;
  std::string lower = text;
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  // Document ends are the one thing here that depends on the place.
  return text != "..." &&
         std::find(kOtherMeanings.begin(), kOtherMeanings.end(), lower) == kOtherMeanings.end();
}

// A duration or size, which reads as text but begins with a digit.
bool isQuantity(const std::string& text) {
  return text.size() < 32 &&
         std::isalpha(static_cast<unsigned char>(text.empty() ? '0' : text.back())) != 0 &&
         (parseDuration(text) || parseBytes(text));
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (byte < 0x20 || byte == 0x7F) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string word(const std::string& text) {
  return isPlain(text) || isQuantity(text) ? text : quoted(text);
}

// Lines that can stand one below the other, as they are.
bool isLines(const TreeNode& node) {
  const std::string& text = node.text;
  const auto harmless = [](unsigned char c) { return c == '\n' || (c >= 0x20 && c < 0x7F); };
  return node.isScalar() && node.quoted && text.size() > 1 && text.back() == '\n' &&
         text[text.size() - 2] != '\n' && std::isgraph(static_cast<unsigned char>(text[0])) != 0 &&
         std::all_of(text.begin(), text.end(), harmless);
}

std::string printLines(const std::string& text, const std::string& indent) {
  std::string out = "|\n";
  std::vector<std::string> lines = split(text, '\n');
  lines.pop_back();
  for (const std::string& line : lines) out += line.empty() ? "\n" : indent + line + "\n";
  return out;
}

bool isLeaf(const TreeNode& node) {
  return node.isScalar() || node.isNothing() || node.children.empty();
}

void printBlock(const TreeNode& node, const std::string& indent, std::string& out) {
  for (const TreeNode& child : node.children) {
    out += &child == &node.children.front() ? "" : indent;
    out += node.isMap() ? word(child.key) + ":" : "-";
    const bool of_maps = !child.children.empty() && child.children.front().isMap();
    if (isLines(child)) {
      out += " " + printLines(child.text, indent + "  ");
    } else if (isLeaf(child) || (child.kind == TreeNode::Kind::kList && !of_maps)) {
      out += fmt::format(" {}\n", printOnOneLine(child));
    } else if (node.isMap()) {
      out += fmt::format("\n{}  ", indent);
      printBlock(child, indent + "  ", out);
    } else {
      out += " ";
      printBlock(child, indent + "  ", out);
    }
  }
}

}  // namespace

std::string printOnOneLine(const TreeNode& node) {
  std::vector<std::string> items;
  switch (node.kind) {
    case TreeNode::Kind::kNothing:
      return "null";
    case TreeNode::Kind::kScalar:
      return node.quoted ? word(node.text) : node.text;
    case TreeNode::Kind::kList:
      for (const TreeNode& child : node.children) items.push_back(printOnOneLine(child));
      return fmt::format("[{}]", join(items, ", "));
    case TreeNode::Kind::kMap:
      for (const TreeNode& child : node.children) {
        items.push_back(word(child.key) + ": " + printOnOneLine(child));
      }
      return fmt::format("{{{}}}", join(items, ", "));
  }
  return "";
}

std::string printTree(const TreeNode& map) {
  std::string out;
  printBlock(map, "", out);
  return out;
}

std::string printJob(const Job& job) { return printTree(shortTree(job)); }

}  // namespace dure::spec
