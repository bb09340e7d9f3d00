#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace dure::train {

// The first thing in which two trainings differ, by what their checkpoints say about them:
// "train.seed: 2 now, 1 then".
std::string differenceBetween(const nlohmann::json& now, const nlohmann::json& then);

}  // namespace dure::train
