#pragma once

#include <nlohmann/json.hpp>

#include "base/result.h"
#include "format/dataset.h"

namespace dure::train {

// What a data set is, wherever it lies: how many samples of which shape and type, the classes, and
// a hash of some rows. These are the same ones each time, all of them in a small data set, and few
// enough to be quick in a large one.
Result<nlohmann::json> fingerprintOf(const format::Dataset& dataset);

}  // namespace dure::train
