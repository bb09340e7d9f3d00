#pragma once

#include <string>

#include "base/result.h"

namespace dure::copy {

// How two files came to have the same bytes.
enum class Sharing {
  kReflink,   // they share storage until one of them is changed
  kHardLink,  // they are one file: whoever changes one in place changes the other
  kCopy,      // they share nothing
};

// "reflinks", "hard links", "copies".
const char* sharingName(Sharing sharing);

// Creates `to` with the bytes of the regular file `from`, sharing storage as far as the file system
// can, if `share`; else, or if it cannot, copies and syncs. On a failure there is no `to`.
Result<Sharing> shareFile(const std::string& from, const std::string& to, bool share);

}  // namespace dure::copy
