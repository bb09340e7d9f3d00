#pragma once

#include <vector>

#include "average/match.h"
#include "format/tensor_texts.h"

namespace dure::average {

// How the average's file must differ from the first model's to tell the truth about its training:
// of how many models it is, their samples and workers together if all of them say, what all of
// them say alike of data, epochs and sync. Nobody has tested it: no accuracy, no loss. Nothing for
// one model. Pure.
format::TextChanges averagedFacts(const std::vector<NamedModel>& models);

}  // namespace dure::average
