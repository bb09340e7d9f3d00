#include "agent/running_program.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

namespace dure::agent {
namespace {

constexpr std::size_t kTail = 4096;
constexpr std::size_t kErrorHead = 4096;
constexpr std::size_t kErrorTail = 8192;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

struct Pipe {
  Fd read;
  Fd write;
};

Result<Pipe> makePipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return systemError("pipe");
  // Fewer turns for a program that prints much; refused for the unprivileged beyond a quota.
  fcntl(ends[0], F_SETPIPE_SZ, 1 << 20);
  return Pipe{Fd(ends[0]), Fd(ends[1])};
}

void appendTail(std::string& tail, std::string_view lines, std::size_t limit) {
  tail += lines.substr(lines.size() > limit ? lines.size() - limit : 0);
  if (tail.size() > limit) tail.erase(0, tail.size() - limit);
}

// Opened for writing too, so that it never seems to end while the program opens and closes it.
Result<Fd> makeNamedPipe(const std::string& path) {
  unlink(path.c_str());
  if (mkfifo(path.c_str(), 0600) != 0) return systemError(path);
  Fd fd(open(path.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC));
  if (!fd) return systemError(path);
  return fd;
}

}  // namespace

Result<std::unique_ptr<RunningProgram>> RunningProgram::start(asio::io_context& loop,
                                                              const Options& options,
                                                              Handlers handlers) {
  auto out = makePipe();
  if (!out) return std::move(out).error();
  auto err = makePipe();
  if (!err) return std::move(err).error();
  // An empty pipe and not /dev/null, which an empty root file system does not have.
  auto in = makePipe();
  if (!in) return std::move(in).error();
  in->write.reset();

  std::unique_ptr<RunningProgram> program(new RunningProgram());
  RunningProgram* self = program.get();
  program->handlers_ = std::move(handlers);
  if (!options.metrics.empty()) {
    auto metrics = makeNamedPipe(options.metrics);
    if (!metrics) return std::move(metrics).error();
    program->metrics_ =
        std::make_shared<LinePipe>(loop, *std::move(metrics), [self](std::string_view lines) {
          self->active_ = steady_clock::now();
          self->reported_ = true;
          self->handlers_.metrics(lines);
        });
  }
  auto pid = spawn({.argv = options.argv,
                    .env = options.env,
                    .workdir = options.workdir,
                    .in = in->read.get(),
                    .out = out->write.get(),
                    .err = err->write.get(),
                    .death_signal = SIGKILL});
  if (!pid) return std::move(pid).error();
  program->pid_ = *pid;
  program->started_ = program->active_ = steady_clock::now();
  program->out_ = std::make_shared<LinePipe>(
      loop, std::move(out->read), [self](std::string_view lines) { self->printed(false, lines); });
  program->err_ = std::make_shared<LinePipe>(
      loop, std::move(err->read), [self](std::string_view lines) { self->printed(true, lines); });
  for (const auto& pipe : {program->out_, program->err_, program->metrics_}) {
    if (pipe) {
      pipe->start([self] { return self->handlers_.more(); }, program->handlers_.read);
    }
  }
  return program;
}

RunningProgram::~RunningProgram() {
  for (const auto& pipe : {out_, err_, metrics_}) {
    if (pipe) pipe->abandon();
  }
}

void RunningProgram::printed(bool error_stream, std::string_view lines) {
  active_ = steady_clock::now();
  if (error_stream) {
    keepErrors(lines);
  } else {
    appendTail(tail_, lines, kTail);
  }
  handlers_.output(error_stream, lines);
}

void RunningProgram::keepErrors(std::string_view lines) {
  // Whole lines only, so that what is between head and tail is left out between two lines.
  while (error_tail_.empty() && !lines.empty()) {
    const std::size_t end = std::min(lines.find('\n') + 1, lines.size());
    const std::string_view line = lines.substr(0, end == 0 ? lines.size() : end);
    if (error_head_.size() + line.size() > kErrorHead) break;
    error_head_ += line;
    lines.remove_prefix(line.size());
  }
  if (!lines.empty()) appendTail(error_tail_, lines, kErrorTail);
}

void RunningProgram::signal(int number) const {
  if (!status_) kill(-pid_, number);
}

void RunningProgram::resume() {
  for (const auto& pipe : {out_, err_, metrics_}) {
    if (pipe) pipe->resume();
  }
}

void RunningProgram::ended(ExitStatus status) {
  status_ = status;
  ended_ = steady_clock::now();
}

bool RunningProgram::settled() {
  if (!status_ || !out_->empty() || !err_->empty() || (metrics_ && !metrics_->empty()))
    return false;
  out_->flush();
  err_->flush();
  return true;
}

void RunningProgram::readNow() {
  out_->readNow();
  err_->readNow();
}

void RunningProgram::drain() {
  for (const auto& pipe : {out_, err_, metrics_}) {
    if (!pipe) continue;
    pipe->drain();
    pipe->close();
  }
}

std::chrono::nanoseconds RunningProgram::used() const {
  clockid_t clock{};
  timespec time{};
  if (status_ || clock_getcpuclockid(pid_, &clock) != 0 || clock_gettime(clock, &time) != 0) {
    return {};
  }
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

milliseconds RunningProgram::ran() const {
  return std::chrono::duration_cast<milliseconds>((status_ ? ended_ : steady_clock::now()) -
                                                  started_);
}

milliseconds RunningProgram::silent() const {
  if (status_) return milliseconds(0);
  return std::chrono::duration_cast<milliseconds>(steady_clock::now() - active_);
}

}  // namespace dure::agent
