#include "format/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <map>
#include <mutex>
#include <new>
#include <utility>

#include <fmt/core.h>

#include "base/fd.h"

namespace dure::format {
namespace {

// Every mapping there is, for releaseMappedPages.
struct Mappings {
  std::mutex mutex;
  std::map<void*, std::size_t> sizes;  // guarded by mutex

  static Mappings& all() {
    static auto* const mappings = new Mappings();  // outlives arrays with static storage
    return *mappings;
  }
  void add(void* memory, std::size_t size) {
    const std::lock_guard lock(mutex);
    sizes[memory] = size;
  }
  void remove(void* memory) {
    const std::lock_guard lock(mutex);
    munmap(memory, sizes[memory]);
    sizes.erase(memory);
  }
};

constexpr std::align_val_t kAlignment{64};

// The file, and its size.
Result<std::pair<Fd, std::size_t>> openRegular(const std::string& path) {
  // Not blocking: a pipe under the name of a data file is refused below, not waited for.
  Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return systemError(path);
  struct stat info {};
  if (fstat(fd.get(), &info) != 0) return systemError(path);
  if (S_ISDIR(info.st_mode)) return Error(Code::kInvalid, path + ": is a directory");
  if (!S_ISREG(info.st_mode)) return Error(Code::kInvalid, path + ": is not a regular file");
  return std::pair(std::move(fd), static_cast<std::size_t>(info.st_size));
}

}  // namespace

void releaseMappedPages() {
  Mappings& mappings = Mappings::all();
  const std::lock_guard lock(mappings.mutex);
  for (const auto& [memory, size] : mappings.sizes) madvise(memory, size, MADV_DONTNEED);
}

Result<FileBytes> mapFile(const std::string& path) {
  const auto opened = openRegular(path);
  if (!opened) return opened.error();
  const auto& [fd, size] = *opened;
  FileBytes file{.name = path};
  if (size == 0) return file;
  void* const memory = mmap(nullptr, size, PROT_READ, MAP_SHARED, fd.get(), 0);
  if (memory == MAP_FAILED) return systemError("map " + path);
  Mappings::all().add(memory, size);
  file.owner = std::shared_ptr<const void>(
      memory, [](const void* mapped) { Mappings::all().remove(const_cast<void*>(mapped)); });
  file.bytes = {static_cast<const std::byte*>(memory), size};
  return file;
}

Result<FileBytes> loadFile(const std::string& path) {
  const auto opened = openRegular(path);
  if (!opened) return opened.error();
  const auto& [fd, size] = *opened;
  // Arrays in it begin where vectors of the processor can be loaded from, as in mapped files.
  const std::shared_ptr<std::byte> memory(
      static_cast<std::byte*>(::operator new(size, kAlignment, std::nothrow)),
      [](std::byte* bytes) { ::operator delete(bytes, kAlignment); });
  if (!memory) return Error(Code::kUnavailable, path + ": there is not enough memory to read it");
  std::size_t got = 0;
  while (got < size) {
    const ssize_t count = read(fd.get(), memory.get() + got, size - got);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return systemError(path);
    if (count == 0) break;  // it has become shorter
    got += static_cast<std::size_t>(count);
  }
  return FileBytes{.name = path, .bytes = {memory.get(), got}, .owner = memory};
}

Error damaged(const FileBytes& file, std::size_t offset, const std::string& what) {
  return Error(Code::kInvalid, fmt::format("{}: at offset {}: {}", file.name, offset, what));
}

Result<std::span<const std::byte>> Cursor::take(std::size_t count, std::string_view what) {
  if (count > left()) {
    return damaged(file_, offset_,
                   fmt::format("{} needs {} bytes but the file has {} left", what, count, left()));
  }
  const auto taken = file_.bytes.subspan(offset_, count);
  offset_ += count;
  return taken;
}

Result<std::uint32_t> Cursor::big32(std::string_view what) {
  const auto value = little<std::uint32_t>(what);
  if (!value) return value.error();
  return __builtin_bswap32(*value);
}

}  // namespace dure::format
