#include "cli/detach.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <sstream>

#include <fmt/core.h>

#include "base/files.h"

namespace dure::cli {
namespace {

// What the detached process tells the one that waits: "+NAME" or "-CODE words".
void tell(int fd, const std::string& message) {
  static_cast<void>(writeAll(fd, message));
  close(fd);
}

[[noreturn]] void becomeDetached(int pipe, runs::RunStore& store,
                                 const std::function<int(Context&, const Begun&)>& go) {
  // The parent of the second child is gone at once, so the run belongs to nobody's job control.
  setsid();
  if (fork() != 0) _exit(0);
  std::ostringstream words;
  std::ostream nowhere(nullptr);
  Context context{.out = nowhere, .err = words};
  bool begun = false;
  const int code = go(context, [&](const std::string& run) {
    begun = true;
    const auto id = store.find(run);
    const std::string path = id ? store.paths(*id).coordinatorLog() : "/dev/null";
    const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    const int log = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    dup2(nothing, STDIN_FILENO);
    dup2(nothing, STDOUT_FILENO);
    dup2(log >= 0 ? log : nothing, STDERR_FILENO);
    words.str("");
    context.err.rdbuf(std::cerr.rdbuf());
    tell(pipe, "+" + run);
  });
  if (!begun) tell(pipe, fmt::format("-{} {}", code, words.str()));
  _exit(code);
}

}  // namespace

int detach(Context& context, runs::RunStore& store,
           const std::function<int(Context&, const Begun&)>& go) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    context.fail(systemError("pipe"));
    return context.code;
  }
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    becomeDetached(ends[1], store, go);
  }
  close(ends[1]);
  const Fd reader(ends[0]);
  if (child < 0) {
    context.fail(systemError("fork"));
    return context.code;
  }
  std::string message;
  char block[4096];
  ssize_t got = 0;
  while ((got = read(reader.get(), block, sizeof block)) > 0 || (got < 0 && errno == EINTR)) {
    if (got > 0) message.append(block, static_cast<std::size_t>(got));
  }
  waitpid(child, nullptr, 0);
  if (message.rfind('+', 0) == 0) {
    context.out << message.substr(1) << "\n";
    return kDone;
  }
  const std::size_t space = message.find(' ');
  if (message.rfind('-', 0) != 0 || space == std::string::npos) {
    context.fail(Error(Code::kIo, "the detached process ended before the run began"));
    return context.code;
  }
  context.err << message.substr(space + 1);
  return std::atoi(message.c_str() + 1);
}

}  // namespace dure::cli
