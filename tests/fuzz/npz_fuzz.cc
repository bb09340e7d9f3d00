// Any bytes are refused as a .npz or .npy file, or hold arrays whose numbers can be read.

#include <cstddef>
#include <cstdint>

#include "format/npy.h"
#include "format/npz.h"

namespace {

void readAll(const dure::format::Array& array) {
  volatile double sum = 0;
  for (std::int64_t i = 0; i < array.elements(); ++i) sum = sum + dure::format::numberAt(array, i);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const dure::format::FileBytes file{
      .name = "fuzz", .bytes = {reinterpret_cast<const std::byte*>(data), size}, .owner = nullptr};
  if (const auto array = dure::format::readNpy(file); array) readAll(*array);
  const auto npz = dure::format::Npz::open(file);
  if (!npz) return 0;
  for (const std::string& name : npz->names()) {
    if (const auto array = npz->read(name); array) readAll(*array);
  }
  return 0;
}
