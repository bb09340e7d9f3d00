#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace dure::spec {

// A valid job name that resembles `text`; "job" if nothing of it can be kept.
std::string toJobName(std::string_view text);

// What a job without a name is called: after its file, or else its program ("train" for python3
// train.py), or else "job".
std::string defaultJobName(const std::string& file, const std::vector<std::string>& command);

}  // namespace dure::spec
