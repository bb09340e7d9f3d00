#pragma once

#include "base/result.h"
#include "format/keras.h"
#include "format/mapped_file.h"

namespace dure::format {

// readKeras for bytes that are already there.
Result<KerasModel> parseKeras(const FileBytes& file);

}  // namespace dure::format
