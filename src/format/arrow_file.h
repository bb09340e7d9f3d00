#pragma once

#include <vector>

#include "base/result.h"
#include "format/arrow_batch.h"
#include "format/arrow_schema.h"
#include "format/mapped_file.h"

namespace dure::format {

struct ArrowFile {
  FileBytes file;
  ArrowSchema schema;
  std::vector<ArrowBatch> batches;
};

// Arrow's IPC stream, or its file format. Reads the messages' heads only; the
// values stay where they are. Compressed bodies and dictionaries are refused.
Result<ArrowFile> readArrow(const FileBytes& file);

}  // namespace dure::format
