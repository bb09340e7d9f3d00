#pragma once

#include "base/result.h"
#include "format/mapped_file.h"
#include "format/safetensors.h"

namespace dure {

// readSafetensors for bytes that are already there.
Result<Safetensors> parseSafetensors(const FileBytes& file);

// writeSafetensors to an open file, which is left as it is if that fails.
Status writeSafetensorsTo(int fd, const Safetensors& content);

}  // namespace dure
