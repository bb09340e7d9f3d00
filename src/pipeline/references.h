#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "spec/tree.h"

// References in texts: ${{ name }}. Two dollars, $${{, are one dollar and no reference.
namespace dure::pipeline {

// What the names stand for; nothing for one that stays as it is.
using Lookup = std::function<std::optional<std::string>(const std::string& name)>;

// The names in the order in which they stand there.
std::vector<std::string> referencesIn(std::string_view text);
// The name, if the text is one reference and nothing else.
std::optional<std::string> soleReference(std::string_view text);
// Whether there is a ${{ that nothing closes.
bool hasOpenReference(std::string_view text);

// The text with what `lookup` knows put in; `for_shell`: each as one word of a shell.
std::string substitute(std::string_view text, const Lookup& lookup, bool for_shell);
// The text with every $${{ as it is meant. For a text that has been substituted.
std::string unescape(std::string_view text);
// A text that substitute() leaves alone, and unescape() turns back.
std::string escape(std::string_view text);

// Does it for every scalar in the tree. One with the key "command" is a line for a shell. Quotes
// around a reference and nothing else do not make a text of it.
void substituteTree(spec::TreeNode& node, const Lookup& lookup);
void unescapeTree(spec::TreeNode& node);

// Calls `see` for every scalar, with its path below `path`.
void forEachScalar(const spec::TreeNode& node, const std::string& path,
                   const std::function<void(const spec::TreeNode&, const std::string&)>& see);

// The step whose output a reference names: "copy" of "steps.copy".
std::optional<std::string> stepOfReference(const std::string& name);

}  // namespace dure::pipeline
