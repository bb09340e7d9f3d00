#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "train/training_data.h"

namespace dure::train {

// The first number among these rows of the training data, or their labels, that is NaN or infinite
// as the model sees it: "train.npz: x_train: row 7: value 12 of the sample is NaN". Empty if all
// are finite.
Result<std::string> findNonFinite(const TrainingData& data, std::span<const std::int64_t> rows);

}  // namespace dure::train
