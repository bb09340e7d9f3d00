#include "format/sandbox.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <exception>
#include <new>

#include <fmt/core.h>

#include "base/fd.h"
#include "base/files.h"
#include "base/process.h"

namespace dure::format {
namespace {

constexpr rlim_t kSeconds = 60;  // of computing; a damaged file can also lead in circles
// The child ends with 0, or with this and the number of the error's code.
constexpr int kFirstErrorExit = 100;

Status makeWithoutThrowing(const std::function<Status(int fd)>& make, int fd) {
  try {
    return make(fd);
  } catch (const std::bad_alloc&) {
    return Error(Code::kUnavailable, "there is not enough memory to read it");
  } catch (const std::exception& error) {
    return Error(Code::kInvalid, error.what());
  }
}

[[noreturn]] void runChild(const std::function<Status(int fd)>& make, int fd) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const rlimit none{.rlim_cur = 0, .rlim_max = 0};
  setrlimit(RLIMIT_CORE, &none);
  const rlimit seconds{.rlim_cur = kSeconds, .rlim_max = kSeconds};
  setrlimit(RLIMIT_CPU, &seconds);
  // What the C library says about a broken heap is not for people.
  const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (nowhere >= 0) dup2(nowhere, STDERR_FILENO);
  const Status made = makeWithoutThrowing(make, fd);
  if (made) _exit(0);
  const bool reported = ftruncate(fd, 0) == 0 && lseek(fd, 0, SEEK_SET) == 0 &&
                        static_cast<bool>(writeAll(fd, made.error().message()));
  _exit(reported ? kFirstErrorExit + static_cast<int>(made.error().code()) : 1);
}

Result<FileBytes> mapMemory(const std::string& name, const Fd& fd) {
  const off_t size = lseek(fd.get(), 0, SEEK_END);
  if (size < 0) return systemError(name);
  if (size == 0) return FileBytes{.name = name};
  const auto length = static_cast<std::size_t>(size);
  void* const at = mmap(nullptr, length, PROT_READ, MAP_PRIVATE, fd.get(), 0);
  if (at == MAP_FAILED) return systemError(name);
  return FileBytes{.name = name,
                   .bytes = {static_cast<const std::byte*>(at), length},
                   .owner = std::shared_ptr<const void>(at, [length](const void* mapped) {
                     munmap(const_cast<void*>(mapped), length);
                   })};
}

}  // namespace

Result<FileBytes> makeInSandbox(const std::string& name,
                                const std::function<Status(int fd)>& make) {
  const Fd fd(memfd_create("dure-sandbox", MFD_CLOEXEC));
  if (!fd) return systemError(name);
  const pid_t child = fork();
  if (child < 0) return systemError(name);
  if (child == 0) runChild(make, fd.get());
  int wait_status = 0;
  while (waitpid(child, &wait_status, 0) < 0) {
    if (errno != EINTR) return systemError(name);
  }
  const ExitStatus exit = decodeWaitStatus(wait_status);
  const int code = exit.code - kFirstErrorExit;
  if (!exit.ok() && (exit.signal != 0 || code < 0 || code > static_cast<int>(Code::kIo))) {
    return Error(Code::kInvalid, fmt::format("{} is damaged: the process that read it {}", name,
                                             describeExit(exit)));
  }
  auto made = mapMemory(name, fd);
  if (!made || exit.ok()) return made;
  return Error(static_cast<Code>(code), std::string(made->text()));
}

}  // namespace dure::format
