#pragma once

#include "plan/place.h"

namespace dure::plan {

// Why the request does not fit, and that `largest` would.
Shortage explainShortage(const Request& request, const Inventory& inventory, std::int64_t largest);

}  // namespace dure::plan
