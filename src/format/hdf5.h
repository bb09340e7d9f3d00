#pragma once

#include <hdf5.h>

#include <cstddef>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "format/array.h"

// The little of HDF5 that Keras' files need. The library has one state for the whole process and is
// not thread-safe: every caller holds lockHdf5() from the first call to the last.

namespace dure::format {

// Turns off what a hostile file could reach through the library: messages on stderr, plugins, links
// to other files.
std::unique_lock<std::mutex> lockHdf5();

// Owns one of the library's identifiers; negative ones stand for a failure.
class H5Id {
 public:
  using Close = herr_t (*)(hid_t);
  H5Id(hid_t id, Close close) : id_(id), close_(close) {}
  H5Id(H5Id&& other) noexcept : id_(std::exchange(other.id_, -1)), close_(other.close_) {}
  H5Id& operator=(H5Id&&) = delete;
  ~H5Id() { static_cast<void>(reset()); }

  explicit operator bool() const { return id_ >= 0; }
  hid_t get() const { return id_; }
  // Negative if the library could not close it.
  herr_t reset() { return id_ < 0 ? 0 : close_(std::exchange(id_, -1)); }

 private:
  hid_t id_;
  Close close_;
};

// Why the library's last call failed, in its words: "WHAT: wrong superblock version".
Error hdf5Error(const std::string& what);

// Reading. The file is used where it lies; it must stay there until it is closed. `limit` is the
// size of the file: nothing in it can be larger.

H5Id openHdf5(std::span<const std::byte> bytes);
bool hasAttribute(hid_t object, const std::string& name);
// A text or a list of texts, of fixed or variable length; an empty list of anything is an empty
// list.
Result<std::vector<std::string>> readTexts(hid_t object, const std::string& name,
                                           std::size_t limit);
// Any list of numbers under `path`, converted to this machine's byte order.
Result<Array> readDataset(hid_t object, const std::string& path, std::size_t limit);

// The type of the numbers in memory; none for what is not read.
std::optional<DType> numberType(hid_t type);
// HDF5's little-endian type of the same numbers; negative if it has none.
H5Id fileType(DType type);

// Writing.

// A text of any length.
Status writeText(hid_t object, const std::string& name, const std::string& text);
// A list of texts of fixed length, as numpy's byte strings.
Status writeTexts(hid_t object, const std::string& name, const std::vector<std::string>& texts);
// Groups on the way are made.
Status writeDataset(hid_t object, const std::string& path, const Array& array);

}  // namespace dure::format
