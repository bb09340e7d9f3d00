#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "format/mapped_file.h"

namespace dure::format {

enum class Packing {
  kGzip,  // a .gz file, of one or more members
  kRaw,   // deflate without any frame, as zip members are
};

// How many bytes there are in all, judged from the first ones (up to kInflateHead of them).
using TotalSize = std::function<Result<std::size_t>(const FileBytes& head)>;
// zlib's best: one byte cannot stand for more.
constexpr std::size_t kBestDeflateRatio = 1032;
constexpr std::size_t kInflateHead = 65536 + 64;

// Unpacks `packed` into memory under the name `name`. The size is asked for before room is made for
// it, and whatever unpacks to more or less is refused: a small file cannot fill the memory.
Result<FileBytes> inflateAll(const FileBytes& packed, Packing packing, const std::string& name,
                             const TotalSize& total_size);

bool isGzip(const FileBytes& file);

// A .gz file of something that does not say how large it is: unpacked once to count the bytes, and
// once into memory of that size.
Result<FileBytes> inflateGzip(const FileBytes& packed);

}  // namespace dure::format
