#pragma once

#include <string>

#include "base/result.h"

namespace dure::pipeline {

// The digest of a file or of everything in a directory: names, contents, which files are programs,
// where links lead. Not times, owners, or where it is.
Result<std::string> digestTree(const std::string& path);

// Copies a file or a directory to a name that is free. Contents are shared where the file system
// can: clones, or else links to the same file; so nobody may change them in place.
Status cloneTree(const std::string& from, const std::string& to);

// Makes everything below durable.
Status syncTree(const std::string& path);

}  // namespace dure::pipeline
