#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "format/array.h"
#include "format/mapped_file.h"
#include "format/zip_directory.h"

namespace dure::format {

// Writes a .npz file from front to back, a piece at a time: arrays are stored as they are, and
// their numbers begin at a multiple of 64. Zip64 where a size needs it. The same arrays make the
// same bytes. The file is created, and is of use only after finish(); who gives up removes it.
class NpzWriter {
 public:
  static Result<NpzWriter> create(const std::string& path);

  // An array of this name, without ".npy", follows: exactly its bytes, in the order of this
  // machine.
  Status begin(const std::string& name, DType type, const std::vector<std::int64_t>& shape);
  // Texts of UTF-8, as an array of numpy's str_.
  Status addTexts(const std::string& name, const std::vector<std::string>& texts);
  Status write(std::span<const std::byte> bytes);
  // Instead of write, for several threads at once: these bytes of the array's numbers, from `at`
  // on. Everything must be written before endNumbers, which gets the checksum of all of them.
  Status writeAt(std::uint64_t at, std::span<const std::byte> bytes) const;
  Status endNumbers(std::uint32_t crc);
  // A member as it lies in another zip file.
  Status addPacked(const ZipMember& member, std::span<const std::byte> packed);
  // Writes the directory and syncs.
  Status finish();

  std::uint64_t size() const { return offset_; }

 private:
  NpzWriter(std::string path, Fd fd) : path_(std::move(path)), fd_(std::move(fd)) {}
  Status beginMember(ZipMember member);
  Status beginArray(const std::string& name, const std::string& type, std::size_t bytes,
                    const std::vector<std::int64_t>& shape);
  Status endMember();
  Status put(std::string_view bytes);

  std::string path_;
  Fd fd_;
  std::uint64_t offset_ = 0;
  std::vector<ZipMember> members_;
  bool open_ = false;       // the last of them is being written
  std::uint64_t left_ = 0;  // bytes of it
};

// Calls the function with 0 … count-1, in whichever order and threads, until a call fails.
using RunAll = std::function<Status(std::size_t count, const std::function<Status(std::size_t)>&)>;
Status runInOrder(std::size_t count, const std::function<Status(std::size_t)>& work);

// Reads the whole file and compares every checksum. Invalid, naming the member, if one is wrong.
// `read` hears how many more bytes were read, and may end it; it is called as `run` calls.
Status verifyZip(const FileBytes& file, const std::function<Status(std::uint64_t)>& read,
                 const RunAll& run = runInOrder);

}  // namespace dure::format
