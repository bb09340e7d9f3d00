#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "base/result.h"
#include "format/keras.h"

namespace dure::format {

// Where an .h5 file has the table of words, as bytes of text.
inline constexpr const char* kWordsPath = "dure/words";

// model_config, or what model.to_json() gives, without weights: a Sequential model, or a Functional
// one whose layers follow one another. `name` is for messages.
Result<KerasModel> parseKerasConfig(const std::string& name, const nlohmann::json& config);

// The other way round.
nlohmann::ordered_json kerasConfig(const KerasModel& model);

}  // namespace dure::format
