#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "format/array.h"
#include "format/mapped_file.h"

namespace dure::format {

// What numpy writes before the numbers of a .npy file.
struct NpyHeader {
  DType dtype = DType::kU8;
  bool swapped = false;  // the numbers are in the other byte order
  std::vector<std::int64_t> shape;
  std::size_t data_offset = 0;
  std::size_t data_bytes = 0;
};

// From the first bytes of the file. Python objects, texts, records, complex numbers and
// Fortran order are refused, each by name.
Result<NpyHeader> readNpyHeader(const FileBytes& head);

// The array of a .npy file: a view of the bytes, in whichever byte order they are. It may begin at
// any address, aligned or not.
Result<Array> readNpy(const FileBytes& file);

}  // namespace dure::format
