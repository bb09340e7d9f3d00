#include "collective/registered_memory.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include <fmt/core.h>

#include "collective/shared_memory.h"

namespace dure::collective {
namespace {

// Of the file. Only what is in use takes memory, and no offset is used twice, so it is large.
constexpr std::uint64_t kFileBytes = 1ULL << 46;
// Each is a mapping, of which the system lets a process have some 65,000.
constexpr std::size_t kMost = 4096;

std::size_t pageBytes() {
  static const auto bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

std::span<std::byte> wholePagesOf(std::span<std::byte> range) {
  const auto address = reinterpret_cast<std::uintptr_t>(range.data());
  const std::size_t before = (pageBytes() - address % pageBytes()) % pageBytes();
  if (before >= range.size()) return {};
  return range.subspan(before, (range.size() - before) / pageBytes() * pageBytes());
}

// Whether all of it is memory as the heap is: nobody else's, of no file, to be read and written.
bool isOrdinary(std::span<const std::byte> pages) {
  auto at = reinterpret_cast<std::uintptr_t>(pages.data());
  const std::uintptr_t end = at + pages.size();
  std::ifstream maps("/proc/self/maps");
  for (std::string line; at < end && std::getline(maps, line);) {
    std::uintptr_t from = 0;
    std::uintptr_t to = 0;
    std::uint64_t inode = 0;
    char access[5] = {};
    if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " %4s %*s %*s %" SCNu64, &from, &to,
                    access, &inode) != 4) {
      return false;
    }
    if (to <= at) continue;
    if (from > at || std::string_view(access) != "rw-p" || inode != 0) return false;
    at = to;
  }
  return at >= end;
}

bool writeAll(int file, std::span<const std::byte> bytes, std::uint64_t offset) {
  while (!bytes.empty()) {
    const ssize_t done = pwrite(file, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (done <= 0) {
      if (done < 0 && errno == EINTR) continue;
      return false;
    }
    bytes = bytes.subspan(static_cast<std::size_t>(done));
    offset += static_cast<std::uint64_t>(done);
  }
  return true;
}

void readAll(int file, std::span<std::byte> bytes, std::uint64_t offset) {
  while (!bytes.empty()) {
    const ssize_t done = pread(file, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return;
    bytes = bytes.subspan(static_cast<std::size_t>(done));
    offset += static_cast<std::uint64_t>(done);
  }
}

// Takes a mapping to the place of what is mapped at `pages`.
bool moveTo(std::span<std::byte> pages, void* mapping) {
  if (mremap(mapping, pages.size(), pages.size(), MREMAP_MAYMOVE | MREMAP_FIXED, pages.data()) !=
      MAP_FAILED) {
    return true;
  }
  munmap(mapping, pages.size());
  return false;
}

// Moves the memory itself out of the way, so that the very same can be put back and the system
// joins it with its neighbours again, whatever they are; other memory is in its place for now.
// Nothing if the system cannot do that, as when what looks like one range is several.
void* moveAway(std::span<std::byte> pages) {
  void* away =
      mremap(pages.data(), pages.size(), pages.size(), MREMAP_MAYMOVE | MREMAP_DONTUNMAP, nullptr);
  return away == MAP_FAILED ? nullptr : away;
}

struct RegisteredRange {
  std::span<std::byte> pages;
  std::uint64_t offset;  // in the file
  void* away;            // what was there, or nothing
};

// Puts memory of the process's own there, with what the file has if that is wanted. If the system
// has none, the shared memory stays, which works as well.
bool makePrivate(const RegisteredRange& range, int file, bool with_contents) {
  void* own = range.away;
  if (!own) {
    // Made elsewhere: where memory is short, nothing has happened yet.
    own = mmap(nullptr, range.pages.size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
               0);
  }
  if (own == MAP_FAILED || !moveTo(range.pages, own)) return false;
  if (with_contents) readAll(file, range.pages, range.offset);
  return true;
}

Result<Fd> makeFile() {
  rlimit limit{};
  // Where files are limited, so is memory in files, and one that is too large ends the process.
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    return Error(Code::kDenied, "the size of files is limited");
  }
  Fd file(memfd_create("dure registered", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file) return systemError("memfd_create");
  if (ftruncate(file.get(), static_cast<off_t>(kFileBytes)) != 0) {
    return systemError("size registered memory");
  }
  if (fcntl(file.get(), F_ADD_SEALS, kSizeSeals | F_SEAL_SEAL) != 0) {
    return systemError("seal registered memory");
  }
  return file;
}

// All registered memory of this process.
class Registry {
 public:
  // Never destroyed, since registered memory may live until the very end of the process.
  static Registry& ofProcess() {
    static Registry& all = *new Registry;
    return all;
  }

  Result<std::uint64_t> add(std::span<std::byte> pages) {
    const std::lock_guard lock(mutex_);
    if (overlapping(pages)) return Error(Code::kExists, "the memory is registered already");
    if (!isOrdinary(pages)) {
      return Error(Code::kInvalid, "only ordinary memory of the process can be registered");
    }
    if (ranges_.size() >= kMost || kFileBytes - next_ < pages.size()) {
      return Error(Code::kUnavailable, "too much memory is registered");
    }
    if (!file_) {
      auto file = makeFile();
      if (!file) return std::move(file).error();
      file_ = std::move(*file);
    }
    RegisteredRange range{.pages = pages, .offset = next_, .away = nullptr};
    next_ += pages.size();
    if (auto status = share(range); !status) {
      punch(range);
      return std::move(status).error();
    }
    ranges_[pages.data()] = range;
    return range.offset;
  }

  void remove(std::span<std::byte> pages, std::uint64_t offset, bool keep_contents) {
    const std::lock_guard lock(mutex_);
    const auto found = ranges_.find(pages.data());
    // It may be unregistered already, or be the parent's.
    if (found == ranges_.end() || found->second.offset != offset) return;
    release(found->second, keep_contents);
    ranges_.erase(found);
  }

  void unregister(std::span<const std::byte> data) {
    const std::lock_guard lock(mutex_);
    const auto found = at(data);
    if (found == ranges_.end()) return;
    release(found->second, true);
    ranges_.erase(found);
  }

  std::optional<BufferRegion> find(std::span<const std::byte> data) {
    const std::lock_guard lock(mutex_);
    const auto found = at(data);
    if (found == ranges_.end()) return std::nullopt;
    const RegisteredRange& range = found->second;
    return BufferRegion{
        .begin = range.offset,
        .bytes = range.pages.size(),
        .at = range.offset + static_cast<std::uint64_t>(data.data() - range.pages.data())};
  }

  RegisteredFile file() {
    const std::lock_guard lock(mutex_);
    struct stat info {};
    if (!file_ || fstat(file_.get(), &info) != 0) return {};
    return {.descriptor = file_.get(), .inode = info.st_ino};
  }

 private:
  using RegisteredRanges = std::map<const std::byte*, RegisteredRange>;

  Registry() {
    pthread_atfork([] { ofProcess().beforeFork(); }, [] { ofProcess().inParent(); },
                   [] { ofProcess().inChild(); });
  }

  RegisteredRanges::iterator at(std::span<const std::byte> data) {
    auto found = ranges_.upper_bound(data.data());
    if (found == ranges_.begin()) return ranges_.end();
    --found;
    const auto pages = found->second.pages;
    return data.data() + data.size() <= pages.data() + pages.size() ? found : ranges_.end();
  }

  bool overlapping(std::span<std::byte> pages) {
    const auto after = ranges_.lower_bound(pages.data() + pages.size());
    if (after == ranges_.begin()) return false;
    const auto before = std::prev(after)->second.pages;
    return before.data() + before.size() > pages.data();
  }

  Status share(RegisteredRange& range) {
    const auto pages = range.pages;
    // Written, not stored to: where there is no memory for it, that is an error and not a signal.
    if (!writeAll(file_.get(), pages, range.offset))
      return systemError("copy to registered memory");
    void* mapped = mmap(nullptr, pages.size(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
                        file_.get(), static_cast<off_t>(range.offset));
    if (mapped == MAP_FAILED) return systemError("map registered memory");
    range.away = moveAway(pages);
    if (!moveTo(pages, mapped)) {
      const Error error = systemError("map registered memory");
      if (range.away) moveTo(pages, range.away);
      return error;
    }
    if (range.away) madvise(range.away, pages.size(), MADV_DONTNEED);
    return {};
  }

  // The memory goes back to the system now, whoever still has it mapped.
  void punch(const RegisteredRange& range) {
    fallocate(file_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
              static_cast<off_t>(range.offset), static_cast<off_t>(range.pages.size()));
  }

  void release(const RegisteredRange& range, bool keep_contents) {
    if (makePrivate(range, file_.get(), keep_contents)) punch(range);
  }

  // Around a fork. What is mapped from a file would be shared with the child. The child takes a
  // copy, and the parent's thread goes on when it has: what the child sees is what there was when
  // it was made. Were the parent to take its memory back instead, then what its other threads write
  // meanwhile would be lost.
  void beforeFork() {
    mutex_.lock();
    int ends[2];
    if (!ranges_.empty() && pipe2(ends, O_CLOEXEC) == 0) {
      copied_.reset(ends[0]);
      copying_.reset(ends[1]);
    }
  }
  void inParent() {
    copying_.reset();
    char nothing = 0;
    // Ends when the child has closed its end, or has died.
    while (copied_ && read(copied_.get(), &nothing, 1) < 0 && errno == EINTR) {
    }
    copied_.reset();
    mutex_.unlock();
  }
  void inChild() {
    copied_.reset();
    for (const auto& [begin, range] : ranges_) {
      if (makePrivate(range, file_.get(), true)) continue;
      // No memory for a copy: then what the parent has, but what is written stays here.
      static_cast<void>(mmap(range.pages.data(), range.pages.size(), PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_FIXED, file_.get(),
                             static_cast<off_t>(range.offset)));
    }
    ranges_.clear();
    file_.reset();
    copying_.reset();
    mutex_.unlock();
  }

  std::mutex mutex_;
  Fd file_;                  // guarded by mutex_, as all below; made when first needed
  RegisteredRanges ranges_;  // by where they begin
  std::uint64_t next_ = 0;   // what is free of the file
  Fd copied_;                // during a fork: the parent's end of a pipe, and
  Fd copying_;               // the child's
};

}  // namespace

bool zeroCopyIsOn() {
  const char* set = std::getenv("DURE_ZERO_COPY");
  return set == nullptr || std::string_view(set) != "0";
}

Result<std::unique_ptr<RegisteredMemory>> RegisteredMemory::registerRange(
    std::span<std::byte> range) {
  if (!zeroCopyIsOn()) return Error(Code::kDenied, "DURE_ZERO_COPY=0");
  const auto pages = wholePagesOf(range);
  if (pages.size() < kLeastRegistered) {
    return Error(Code::kInvalid, fmt::format("{} bytes are too few to register", range.size()));
  }
  auto offset = Registry::ofProcess().add(pages);
  if (!offset) return std::move(offset).error();
  return std::unique_ptr<RegisteredMemory>(new RegisteredMemory(pages, *offset));
}

RegisteredMemory::~RegisteredMemory() {
  Registry::ofProcess().remove(pages_, offset_, keeps_contents_);
}

std::optional<BufferRegion> findRegistered(std::span<const std::byte> data) {
  return Registry::ofProcess().find(data);
}

RegisteredFile registeredFile() { return Registry::ofProcess().file(); }

void unregister(std::span<const std::byte> data) { Registry::ofProcess().unregister(data); }

Result<Fd> openRegisteredFile(int process, const RegisteredFile& file) {
  const std::string path = fmt::format("/proc/{}/fd/{}", process, file.descriptor);
  // It may be something else by now, so nothing that blocks.
  Fd opened(open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!opened) return systemError("open " + path);
  struct stat info {};
  if (fstat(opened.get(), &info) != 0) return systemError("stat " + path);
  const int seals = fcntl(opened.get(), F_GET_SEALS);
  if (seals < 0 || (seals & kSizeSeals) != kSizeSeals || info.st_ino != file.inode ||
      static_cast<std::uint64_t>(info.st_size) != kFileBytes) {
    return Error(Code::kInvalid, path + " is not registered memory");
  }
  return opened;
}

}  // namespace dure::collective
