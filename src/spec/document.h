#pragma once

#include <string>

namespace dure::spec {

// The reference of the job file as a Markdown page, which is docs/job-file.md.
std::string jobDocumentation();

}  // namespace dure::spec
