#include "agent/agent.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/ip/host_name.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <ostream>
#include <thread>

#include <fmt/core.h>

#include "base/files.h"
#include "base/log.h"
#include "base/rank_names.h"
#include "base/sha256.h"
#include "base/text.h"
#include "bundle/folder.h"

namespace dure::agent {
namespace {

using std::chrono::milliseconds;

// What a process printed so shortly before its end is why it ended.
constexpr milliseconds kRecentOutput{1000};

constexpr milliseconds kLoadWindow{10};
constexpr milliseconds kLongestLoad{3000};
constexpr milliseconds kNetworkComes{20'000};
constexpr milliseconds kTryAgain{500};
// For the final output to be written, to a reader that may never take it.
constexpr milliseconds kWordsPatience{10'000};
constexpr milliseconds kSoon{20};

std::int64_t wallClock() {
  return std::chrono::duration_cast<milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// An interpreter that has just printed a traceback is about to end by itself, and to say with what.
// Its sockets are closed by then, so those that miss it may fail, and have everybody stopped,
// before it gets there.
bool isEnding(RunningProgram& program) {
  program.readNow();
  const std::string tail = program.errors();
  if (program.silent() > kRecentOutput ||
      tail.find("Traceback (most recent call last):") == std::string::npos) {
    return false;
  }
  const std::size_t end = tail.find_last_not_of('\n');
  const std::size_t line = end == std::string::npos ? end : tail.rfind('\n', end);
  return line != std::string::npos && tail[line + 1] != ' ';
}

// As a shell tells it: also how a container ends that a signal ended.
int shellCode(const ExitStatus& status) {
  return status.signal != 0 ? 128 + status.signal : status.code;
}

}  // namespace

Agent::Agent(protocol::AgentOptions options) : options_(std::move(options)) {
  for (std::string& entry : currentEnvironment()) {
    if (entry.rfind(protocol::kAgentPrefix, 0) != 0) inherited_.push_back(std::move(entry));
  }
}

Agent::~Agent() = default;

int Agent::run(std::ostream& errors) {
  const auto ready = [&]() -> Status {
    if (auto adopted = adoptOrphans(); !adopted) return adopted;
    if (auto made = makeDirectories(options_.directory); !made) return made;
    auto lock = FileLock::acquire(protocol::agentLock(options_.directory));
    if (!lock) return std::move(lock).error().during("another agent of this task");
    lock_.emplace(*std::move(lock));
    if (auto listening = listenForClients(); !listening) return listening;
    return connect();
  }();
  if (!ready) {
    errors << protocol::kAgentWords << options_.task << ": " << ready.error().message() << "\n";
    return 3;
  }
  for (const int signal : {SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2}) {
    signals_.add(signal);
  }
  signal(SIGPIPE, SIG_IGN);
  waitForSignals();
  logInfo("agent", "{} of generation {} has joined {}", options_.task, options_.generation,
          options_.coordinator);
  send(protocol::MessageType::kHello, protocol::Hello{.secret = options_.secret,
                                                      .run = options_.run,
                                                      .generation = options_.generation,
                                                      .task = options_.task,
                                                      .host = asio::ip::host_name(),
                                                      .pid = getpid()});
  // Until now whoever started us took us along when it died. From now on the end of the
  // connection tells of its death, and there may be programs to end first.
  const pid_t parent = getppid();
  // (Frozen, we would not see it end: so let its death thaw us.)
  prctl(PR_SET_PDEATHSIG, SIGCONT);
  if (getppid() != parent) return 3;
  loop_.run();
  loop_ended_ = true;
  if (!complaint_.empty())
    errors << protocol::kAgentWords << options_.task << ": " << complaint_ << "\n";
  return exit_code_ == 0 && options_.contained ? program_code_ : exit_code_;
}

Status Agent::connect() {
  const std::size_t colon = options_.coordinator.rfind(':');
  boost::system::error_code error;
  // A number: a static program in a foreign image cannot look up names.
  const auto address = asio::ip::make_address(options_.coordinator.substr(0, colon), error);
  const auto port = std::strtoul(options_.coordinator.c_str() + colon + 1, nullptr, 10);
  asio::ip::tcp::socket socket(loop_);
  const auto began = std::chrono::steady_clock::now();
  while (!error) {
    socket.connect({address, static_cast<unsigned short>(port)}, error);
    if (!error) break;
    // The network of a pod may come a moment after the pod.
    if (!options_.contained || std::chrono::steady_clock::now() - began > kNetworkComes) break;
    socket.close();
    error.clear();
    std::this_thread::sleep_for(kTryAgain);
  }
  if (error) {
    return Error(Code::kUnavailable,
                 "connect to the coordinator at " + options_.coordinator + ": " + error.message());
  }
  coordinator_ = std::make_shared<net::Connection>(net::Connection::Socket(std::move(socket)));
  if (options_.encrypted) coordinator_->encrypt(options_.secret, net::TlsSide::kClient);
  coordinator_->start({.frame = [this](const net::Frame& frame) { receive(frame); },
                       .closed = [this](const std::string& why) { lostCoordinator(why); },
                       .drained =
                           [this] {
                             eachProgram([](RunningProgram& program) { program.resume(); });
                             settle();
                           }});
  if (options_.contained) openOutput();
  return {};
}

void Agent::waitForSignals() {
  signals_.async_wait([this](const boost::system::error_code& error, int signal) {
    if (error || finished_) return;
    if (signal == SIGCHLD) {
      reap();
    } else if (signal == SIGTERM || signal == SIGINT) {
      stop(milliseconds(welcome_.stop_ms), signal);
    } else {
      eachProgram([&](RunningProgram& program) { program.signal(signal); });
    }
    if (!finished_) waitForSignals();
  });
}

void Agent::receive(const net::Frame& frame) {
  logDebug("agent", "{} receives {}", options_.task, protocol::messageName(frame.type));
  const auto broken = [&] { lostCoordinator("the coordinator sent what is no message"); };
  switch (static_cast<protocol::MessageType>(frame.type)) {
    case protocol::MessageType::kWelcome: {
      const auto welcome = protocol::decode<protocol::Welcome>(frame.payload);
      if (!welcome) return broken();
      welcome_ = *welcome;
      if (welcome_.lease_ms > 0) {
        lease_ =
            std::make_unique<Lease>(milliseconds(welcome_.lease_ms), [this] { leaseExpired(); });
      }
      return beat();
    }
    case protocol::MessageType::kAlive:
      // It answers the oldest beat: whatever was on the way for long proves no more than that.
      if (beats_.empty()) return broken();
      lease_->renew(beats_.front());
      return beats_.pop_front();
    case protocol::MessageType::kFolder:
      return takeFolder(frame.payload);
    case protocol::MessageType::kRefused: {
      const auto refused = protocol::decode<protocol::Refused>(frame.payload);
      return lostCoordinator("refused: " + (refused ? refused->reason : "no reason given"));
    }
    case protocol::MessageType::kNames: {
      const auto names = protocol::decode<protocol::Names>(frame.payload);
      if (!names) return broken();
      return lookUp(*names);
    }
    case protocol::MessageType::kStart: {
      auto start = protocol::decode<protocol::Start>(frame.payload);
      if (!start) return broken();
      return startPrograms(*start);
    }
    case protocol::MessageType::kStop: {
      const auto asked = protocol::decode<protocol::Stop>(frame.payload);
      if (!asked) return broken();
      return stop(milliseconds(asked->grace_ms), SIGTERM);
    }
    case protocol::MessageType::kExec: {
      const auto exec = protocol::decode<protocol::Exec>(frame.payload);
      if (!exec) return broken();
      return startRemote(*exec);
    }
    case protocol::MessageType::kExecCancel: {
      const auto cancel = protocol::decode<protocol::ExecCancel>(frame.payload);
      if (!cancel) return broken();
      const auto remote = remotes_.find(cancel->id);
      if (remote != remotes_.end()) remote->second->program->signal(SIGTERM);
      return;
    }
    case protocol::MessageType::kExecOutput: {
      const auto chunk = protocol::decodeChunk(frame.payload);
      if (!chunk) return broken();
      const auto client = clients_.find(chunk->number / 2);
      if (client != clients_.end()) client->second->connection->send(frame.type, frame.payload);
      return;
    }
    case protocol::MessageType::kExecExited: {
      const auto exited = protocol::decode<protocol::ExecExited>(frame.payload);
      if (!exited) return broken();
      const auto client = clients_.find(exited->id);
      if (client == clients_.end()) return;
      client->second->connection->send(frame.type, frame.payload);
      client->second->connection->finish();
      clients_.erase(client);
      return;
    }
    default:
      return broken();
  }
}

void Agent::takeFolder(std::string_view piece) {
  folder_ += piece;
  const auto whole = static_cast<std::size_t>(welcome_.folder_bytes);
  if (folder_.size() < whole) return;
  if (folder_.size() > whole || options_.folder.empty() ||
      sha256Hex(folder_) != welcome_.folder_hash) {
    return giveUp("the archive of the programs arrived damaged");
  }
  if (auto unpacked = bundle::unpackFolder(folder_, options_.folder); !unpacked) {
    return giveUp("unpack the folder of the programs: " + unpacked.error().message());
  }
  folder_ = {};
  coordinator_->send(protocol::raw(protocol::MessageType::kReady), "");
}

void Agent::lostCoordinator(const std::string& why) {
  if (finished_ || exit_code_ != 0) return;
  logInfo("agent", "{} has lost its coordinator: {}", options_.task, why);
  complaint_ = why;
  exit_code_ = 3;
  coordinator_->close();
  killAll();
}

void Agent::giveUp(const std::string& why) {
  if (finished_ || exit_code_ != 0) return;
  logInfo("agent", "{} gives up: {}", options_.task, why);
  send(protocol::MessageType::kUnable, protocol::Unable{why});
  complaint_ = why;
  program_code_ = 3;
  killAll();
}

std::vector<std::string> Agent::environmentFor(
    const std::map<std::string, std::string>& extra) const {
  std::vector<std::string> environment;
  for (const std::string& entry : inherited_) {
    if (!extra.contains(entry.substr(0, entry.find('=')))) environment.push_back(entry);
  }
  for (const auto& [name, value] : extra) environment.push_back(name + "=" + value);
  return environment;
}

void Agent::startPrograms(const protocol::Start& start) {
  if (started_ || stopping_) return;
  started_ = true;
  start_ = start;
  for (const auto& [name, content] : start.files) {
    if (auto written = replaceFile(options_.directory + "/" + name, content); !written) {
      return giveUp(written.error().message());
    }
  }
  programs_.resize(start.processes.size());
  std::int64_t latest = 0;
  for (std::size_t i = 0; i < start.processes.size(); ++i) {
    latest = std::max(latest, start.processes[i].delay_ms);
    if (start.processes[i].delay_ms == 0) startProgram(i);
  }
  if (latest == 0) return allStarted();
  start_timer_.expires_after(milliseconds(latest));
  start_timer_.async_wait([this](const boost::system::error_code& error) {
    if (error || stopping_) return;
    for (std::size_t i = 0; i < programs_.size(); ++i) {
      if (start_.processes[i].delay_ms > 0) startProgram(i);
    }
    allStarted();
  });
}

void Agent::allStarted() {
  started_at_ = std::chrono::steady_clock::now();
  if (start_.tell_loaded) watchLoading({});
  settle();
}

void Agent::startProgram(std::size_t i) {
  const auto chunk = [this, number = static_cast<std::int64_t>(i)](protocol::MessageType type) {
    return [this, number, type](std::string_view lines) {
      coordinator_->send(protocol::raw(type), protocol::encodeChunk(number, lines));
    };
  };
  auto program = RunningProgram::start(
      loop_,
      {.argv = start_.processes[i].argv,
       .env = environmentFor(start_.processes[i].env),
       .workdir = start_.workdir,
       .metrics = task_files::metricsOf(options_.directory, static_cast<int>(i))},
      {.output =
           [this, i, send = chunk(protocol::MessageType::kOutput)](bool, std::string_view lines) {
             if (options_.contained) return print(start_.processes[i].label, lines);
             send(lines);
           },
       .metrics = chunk(protocol::MessageType::kMetric),
       .more =
           [this] {
             return coordinator_->queued() < net::Connection::kHighWater &&
                    (!output_ || output_->hasRoom());
           },
       .read = [this] { settle(); }});
  if (program) {
    programs_[i].program = *std::move(program);
    logInfo("agent", "{} starts process {}: pid {}", options_.task, i, programs_[i].program->pid());
    return;
  }
  logInfo("agent", "{} cannot start process {}: {}", options_.task, i, program.error().message());
  programs_[i].reported = true;
  program_code_ = 127;
  if (options_.contained) print(start_.processes[i].label, program.error().message() + "\n");
  send(protocol::MessageType::kExited, protocol::Exited{.process = static_cast<int>(i),
                                                        .status = {.code = 127},
                                                        .at_ms = wallClock(),
                                                        .error = program.error().message()});
}

// A program that loads is busy; one that has loaded waits, for its peers or for work. One that is
// busy for long has begun to work.
void Agent::watchLoading(std::chrono::nanoseconds used_before) {
  load_timer_.expires_after(kLoadWindow);
  load_timer_.async_wait([this, used_before](const boost::system::error_code& error) {
    if (error) return;
    std::chrono::nanoseconds used{0};
    for (const Ranked& ranked : programs_) {
      if (ranked.program) used += ranked.program->used();
    }
    const bool resting = used - used_before < kLoadWindow / 4;
    if (resting || std::chrono::steady_clock::now() - started_at_ > kLongestLoad) {
      return coordinator_->send(protocol::raw(protocol::MessageType::kLoaded), "");
    }
    watchLoading(used);
  });
}

void Agent::reap() {
  int wait_status = 0;
  pid_t pid = 0;
  bool reaped = false;
  while ((pid = waitpid(-1, &wait_status, WNOHANG)) > 0) {
    reaped = true;
    for (Ranked& ranked : programs_) {
      if (!ranked.program || ranked.program->pid() != pid || ranked.program->status()) continue;
      // The kernel closes the sockets of a process that somebody kills before it tells us of its
      // end: those that miss it may have had everybody stopped by then. SIGKILL is ours only later.
      const bool by_others = decodeWaitStatus(wait_status).signal == SIGKILL;
      ranked.asked = stopping_ && (killing_ || !(ranked.ending || by_others));
      // An interpreter complains, then closes its sockets, then takes its time to end: those that
      // miss it may be quicker.
      const milliseconds silent = ranked.program->silent();
      ranked.ended_ms = wallClock() - (silent < kRecentOutput ? silent.count() : 0);
    }
    eachProgram([&](RunningProgram& program) {
      if (program.pid() == pid && !program.status()) program.ended(decodeWaitStatus(wait_status));
    });
  }
  if (killing_ && pid < 0) return finish();
  if (killing_ && reaped) {
    // Its children are ours now.
    purge_->progress();
    if (kill_timer_.expiry() > std::chrono::steady_clock::now() + kSoon) killAgainIn(kSoon);
  }
  settle();
}

void Agent::settle() {
  if (!started_ || killing_) return;
  report();
  // A task whose programs have all ended has no business any more; nor has one without programs
  // once it is told to stop and what others started in it has ended.
  const bool ended = programs_.empty()
                         ? stopping_ && remotes_.empty()
                         : std::all_of(programs_.begin(), programs_.end(),
                                       [](const Ranked& ranked) { return ranked.reported; });
  if (ended) killAll();
}

void Agent::report() {
  for (std::size_t i = 0; i < programs_.size(); ++i) {
    Ranked& ranked = programs_[i];
    if (ranked.reported || !ranked.program || !ranked.program->settled()) continue;
    ranked.reported = true;
    logInfo("agent", "{}: process {} exited: {}", options_.task, i,
            describeExit(*ranked.program->status()));
    if (!ranked.asked && program_code_ == 0) program_code_ = shellCode(*ranked.program->status());
    send(protocol::MessageType::kExited, protocol::Exited{.process = static_cast<int>(i),
                                                          .status = *ranked.program->status(),
                                                          .at_ms = ranked.ended_ms,
                                                          .ran_ms = ranked.program->ran().count(),
                                                          .asked = ranked.asked,
                                                          .tail = ranked.program->tail(),
                                                          .errors = ranked.program->errors(),
                                                          .reported = ranked.program->reported()});
  }
  for (auto it = remotes_.begin(); it != remotes_.end();) {
    if (!it->second->program->settled()) {
      ++it;
      continue;
    }
    send(protocol::MessageType::kExecExited,
         protocol::ExecExited{.id = it->first, .status = *it->second->program->status()});
    it = remotes_.erase(it);
  }
}

void Agent::stop(milliseconds grace, int signal) {
  // What has ended already did so by itself.
  if (!stopping_) reap();
  if (finished_) return;
  logInfo("agent", "{} stops its processes within {} ms", options_.task, grace.count());
  stopping_ = true;
  if (!started_ || grace.count() <= 0) return killAll();
  for (Ranked& ranked : programs_) {
    if (ranked.program) ranked.ending = isEnding(*ranked.program);
    if (ranked.program && !ranked.ending) ranked.program->signal(signal);
    // What was still to be started has nothing to report.
    if (!ranked.program) ranked.reported = true;
  }
  for (const auto& [id, remote] : remotes_) remote->program->signal(signal);
  kill_timer_.expires_after(grace);
  kill_timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) killAll();
  });
  settle();
}

void Agent::finish() {
  if (finished_) return;
  logInfo("agent", "{}: no process is left", options_.task);
  finished_ = true;
  if (exit_code_ != 0) return loop_.stop();
  // Nobody is left who could write: what is in the pipes is all there will be.
  if (childProcesses().empty()) eachProgram([](RunningProgram& program) { program.drain(); });
  if (started_) report();
  signals_.cancel();
  load_timer_.cancel();
  start_timer_.cancel();
  kill_timer_.expires_after(kWordsPatience);
  kill_timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) leave();
  });
  boost::system::error_code ignored;
  clients_listener_.close(ignored);
  for (const auto& [id, client] : clients_) client->connection->close();
  clients_.clear();
  if (!output_ || output_->idle()) leave();
}

void Agent::leave() {
  if (std::exchange(left_, true) || exit_code_ != 0) return;
  coordinator_->send(protocol::raw(protocol::MessageType::kFinished), "");
  coordinator_->finish();
  // With nothing to wait for, the loop ends by itself when the final output is out.
  beat_timer_.cancel();
  kill_timer_.cancel();
}

}  // namespace dure::agent
