#pragma once

#include <string>
#include <vector>

#include "serve/model_store.h"

// What the server says about its models, in the words of each of its interfaces: JSON.
namespace dure::serve {

// GET /api/models
std::string apiModelsText(const std::vector<SlotView>& models);
// GET /v1/models/NAME
std::string v1StatusText(const SlotView& model);
// GET /v1/models/NAME/metadata
std::string v1MetadataText(const LoadedModel& model);
// GET /v2/models/NAME
std::string v2MetadataText(const LoadedModel& model);

}  // namespace dure::serve
