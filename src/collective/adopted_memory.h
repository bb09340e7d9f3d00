#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "base/fd.h"
#include "base/result.h"

namespace dure::collective {

// What is less is not adopted: copying it costs less than the trouble.
inline constexpr std::size_t kLeastAdopted = 48u << 10u;

// False with DURE_ZERO_COPY=0: then no memory is adopted, and every operation copies its data.
bool zeroCopyIsOn();

// Memory of this process that the other processes of the host can be let into, at the address that
// it had before: its whole pages are put into a file without a name and mapped from there, so that
// pointers into it stay what they are. All of this process's adopted memory is in one file, of
// which no part is used twice: a place in it is a name that never means anything else.
//
// A child of this process gets a private copy, as of all other memory, when it is forked.
class AdoptedMemory {
 public:
  // The range stays allocated until the object is destroyed, and nobody uses it during the call.
  // Invalid if it has too few whole pages, or is not ordinary memory as of the heap; Exists if a
  // part of it is adopted already; Denied if zero-copy is off; else what the system does not
  // allow. Nothing has changed then.
  static Result<std::unique_ptr<AdoptedMemory>> adopt(std::span<std::byte> range);

  // The memory is the process's own again, with the numbers that it had, and peers that still have
  // it mapped see other memory. Nobody uses it meanwhile.
  ~AdoptedMemory();
  AdoptedMemory(const AdoptedMemory&) = delete;
  AdoptedMemory& operator=(const AdoptedMemory&) = delete;

  // The numbers will not be needed any more: the memory is about to be freed.
  void forgetContents() { keeps_contents_ = false; }

  // The pages that are adopted.
  std::span<std::byte> pages() const { return pages_; }

 private:
  AdoptedMemory(std::span<std::byte> pages, std::uint64_t offset)
      : pages_(pages), offset_(offset) {}

  const std::span<std::byte> pages_;
  const std::uint64_t offset_;  // in the file, and the name under which it is known
  bool keeps_contents_ = true;
};

// Of data that lies in adopted memory.
struct AdoptedPlace {
  std::uint64_t begin = 0;  // of the adopted memory in the file
  std::uint64_t bytes = 0;  // of that
  std::uint64_t at = 0;     // of the data in the file
};

// The file as other processes can find it.
struct AdoptedFile {
  int descriptor = -1;
  std::uint64_t inode = 0;
};

// Nothing unless all of the data is in one adopted range of this process. From any thread.
std::optional<AdoptedPlace> findAdopted(std::span<const std::byte> data);
AdoptedFile adoptedFile();
// Makes adopted memory that has this data the process's own at once, and for good: peers may still
// write to what they have mapped, and it must not matter.
void takeBack(std::span<const std::byte> data);

// Opens the file of another process, found under its process id. Invalid if what is found is not
// that file, or could be cut short.
Result<Fd> openAdoptedFile(int process, const AdoptedFile& file);

}  // namespace dure::collective
