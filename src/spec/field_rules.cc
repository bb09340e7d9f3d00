// What the texts of fields must look like; declared in fields.h.

#include <algorithm>
#include <filesystem>

#include "spec/fields.h"

namespace dure::spec {
namespace {

bool isLower(char c) { return c >= 'a' && c <= 'z'; }
bool isDigit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

std::string labelKeyProblem(std::string_view key) {
  const auto ends = [](char c) { return isLower(c) || isDigit(c) || (c >= 'A' && c <= 'Z'); };
  const auto inside = [&](char c) {
    return ends(c) || std::string_view("-_./").find(c) != std::string_view::npos;
  };
  const bool valid = !key.empty() && key.size() <= kMaxLabelKeyLength && ends(key.front()) &&
                     ends(key.back()) && std::all_of(key.begin(), key.end(), inside);
  return valid ? "" : "must be the key of a label, such as disk or example.com/disk";
}

std::string environmentNameProblem(std::string_view name) {
  if (name.empty()) return "must not be empty";
  if (name.size() > 255) return "must be at most 255 bytes long";
  if (name.starts_with("DURE_")) return "names that begin with DURE_ are reserved";
  const auto forbidden = [](unsigned char c) { return c == '=' || c < 0x20 || c == 0x7F; };
  if (std::any_of(name.begin(), name.end(), forbidden)) {
    return "must not have '=' or control characters in its name";
  }
  return "";
}

bool isObjectName(std::string_view text) {
  const auto ends = [](char c) { return isLower(c) || isDigit(c); };
  const auto allowed = [&](char c) { return ends(c) || c == '-' || c == '.'; };
  return !text.empty() && text.size() <= 253 && ends(text.front()) && ends(text.back()) &&
         std::all_of(text.begin(), text.end(), allowed) &&
         text.find("..") == std::string_view::npos;
}

bool isVolumePath(std::string_view text) {
  if (text.empty() || text.find(':') != std::string_view::npos) return false;
  const std::filesystem::path path(text);
  return std::find(path.begin(), path.end(), "..") == path.end();
}

bool isJobName(std::string_view text) {
  const auto allowed = [](char c) { return isLower(c) || isDigit(c) || c == '-'; };
  return !text.empty() && text.size() <= kMaxNameLength && isLower(text.front()) &&
         text.back() != '-' && std::all_of(text.begin(), text.end(), allowed);
}

}  // namespace dure::spec
