#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "base/fd.h"
#include "base/result.h"

namespace dure::collective {

// Smaller ranges are not registered: copying them costs less.
inline constexpr std::size_t kLeastRegistered = 48u << 10u;

// False with DURE_ZERO_COPY=0: then no memory is registered, and every operation copies its data.
bool zeroCopyIsOn();

// A registered buffer: memory of this process that the other processes of the host can map, for
// zero-copy operations. Registering moves its whole pages into a memfd and maps them back at the
// same address, so that pointers into it stay valid. A process has one such file and never reuses
// an offset: an offset identifies a buffer even after its memory was freed.
//
// A child of this process gets a private copy, as of all other memory, when it is forked.
class RegisteredMemory {
 public:
  // The range stays allocated until the object is destroyed, and nobody uses it during the call.
  // Invalid if it has too few whole pages, or is not ordinary memory as of the heap; Exists if a
  // part of it is registered already; Denied if zero-copy is off; else what the system does not
  // allow. Nothing has changed then.
  static Result<std::unique_ptr<RegisteredMemory>> registerRange(std::span<std::byte> range);

  // Unregisters: the memory is private again, with its contents, and peers that still have it
  // mapped see other memory. Nobody uses it meanwhile.
  ~RegisteredMemory();
  RegisteredMemory(const RegisteredMemory&) = delete;
  RegisteredMemory& operator=(const RegisteredMemory&) = delete;

  // The caller is about to free the memory, so the contents need not be kept.
  void discardContents() { keeps_contents_ = false; }

  // The registered pages.
  std::span<std::byte> pages() const { return pages_; }

 private:
  RegisteredMemory(std::span<std::byte> pages, std::uint64_t offset)
      : pages_(pages), offset_(offset) {}

  const std::span<std::byte> pages_;
  const std::uint64_t offset_;  // in the file; identifies the range
  bool keeps_contents_ = true;
};

// Where data lies in registered memory: offsets in the file.
struct BufferRegion {
  std::uint64_t begin = 0;  // of the registered range
  std::uint64_t bytes = 0;  // of that
  std::uint64_t at = 0;     // of the data
};

// The file as other processes can find it.
struct RegisteredFile {
  int descriptor = -1;
  std::uint64_t inode = 0;
};

// Nothing unless all of the data is in one registered range of this process. From any thread.
std::optional<BufferRegion> findRegistered(std::span<const std::byte> data);
RegisteredFile registeredFile();
// Unregisters the range that has this data, at once and for good: peers may still write to what
// they have mapped, and it must not matter.
void unregister(std::span<const std::byte> data);

// Opens the registered file of another process, through /proc. Invalid if what is found is not
// that file, or could be cut short.
Result<Fd> openRegisteredFile(int process, const RegisteredFile& file);

}  // namespace dure::collective
