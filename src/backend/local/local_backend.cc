#include "backend/local/local_backend.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include <fmt/core.h>

#include "backend/local/machine.h"
#include "backend/local/network.h"
#include "base/files.h"
#include "base/log.h"
#include "base/process.h"
#include "base/process_tree.h"
#include "gang/environment.h"
#include "gang/layout.h"
#include "plan/place.h"
#include "protocol/agent_options.h"

namespace dure::local {
namespace {

constexpr const char* kLoopback = "127.0.0.1";
// The agent and its guardian have tried before.
constexpr std::chrono::milliseconds kPurgePatience{2000};
constexpr std::chrono::milliseconds kGuardianEnds{1000};

// What a native job reads must be there before anything starts.
Status findInputs(const spec::Job& job) {
  for (const auto& [field, path] : spec::trainingInputs(job.train)) {
    const auto whole = std::filesystem::path(job.program.workdir) / path;
    if (access(whole.c_str(), R_OK) == 0) continue;
    return Error(Code::kInvalid, std::string(field) + ": " + systemError(path).message());
  }
  return {};
}

// The command must be there before anything starts. It is looked for as the agent will.
Status findCommand(const spec::Job& job, const gang::Site& site) {
  struct stat info {};
  if (stat(job.program.workdir.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) {
    return Error(Code::kInvalid, "program.workdir: no directory " + job.program.workdir);
  }
  const std::string program = gang::strategyOf(job).command(job, site).front();
  if (spec::runsTrainer(job)) {
    if (access(program.c_str(), X_OK) != 0) {
      return Error(Code::kUnavailable, "native training needs " + systemError(program).message());
    }
    return findInputs(job);
  }
  std::vector<std::string> environment = currentEnvironment();
  const auto path = job.env.find("PATH");
  if (path != job.env.end()) environment.push_back("PATH=" + path->second);
  auto found = findProgram(program, environment);
  if (!found) return Error(Code::kInvalid, "program.command: " + found.error().message());
  if (found->front() != '/') *found = job.program.workdir + "/" + *found;
  if (access(found->c_str(), X_OK) != 0) {
    return Error(Code::kInvalid, "program.command: " + systemError(program).message());
  }
  if (stat(found->c_str(), &info) != 0 || !S_ISREG(info.st_mode)) {
    return Error(Code::kInvalid, "program.command: " + program + " is not a program");
  }
  return {};
}

// The next GPUs of this machine for each task that asks for some.
std::map<std::string, std::string> assignGpus(const gang::Roster& roster) {
  const auto ours = machineGpus();
  std::map<std::string, std::string> assigned;
  std::size_t next = 0;
  for (const gang::Task& task : roster.tasks) {
    for (int i = 0; i < task.gpus; ++i, ++next) {
      std::string& gpus = assigned[task.name()];
      if (!gpus.empty()) gpus += ",";
      gpus += ours ? ours->at(next) : std::to_string(next);
    }
  }
  return assigned;
}

}  // namespace

LocalBackend::LocalBackend(asio::io_context& loop, Options options)
    : loop_(loop), options_(std::move(options)), children_(loop), again_(loop), force_(loop) {}

Result<gang::Site> LocalBackend::survey() {
  const spec::Job& job = options_.job;
  gang::Site site;
  site.run = options_.run;
  site.agent = options_.agent;
  site.trainer = (std::filesystem::path(options_.agent).parent_path() / "dure-trainer").string();
  if (auto found = findCommand(job, site); !found) return std::move(found).error();
  if (access(options_.agent.c_str(), X_OK) != 0) {
    return Error(Code::kUnavailable, systemError("the agent " + options_.agent).message());
  }
  auto planned = layout();
  if (!planned) return std::move(planned).error();
  planned_ = *planned;
  const int count = gang::portsNeeded(job);
  int port = ports_.first != 0 ? ports_.first : job.port;
  if (port == 0) {
    auto range = findPorts(job.name, count, false);
    if (!range) return std::move(range).error();
    port = range->first;
  }
  if (port + count - 1 > 65535) {
    return Error(Code::kInvalid,
                 fmt::format("port: {} ports are needed from {} on, and there are none "
                             "above 65535",
                             count, port));
  }
  site.address = job.local.networks.empty() ? kLoopback : job.local.address;
  site.listen = site.address;
  site.interface = "lo";
  site.directory = options_.directory;
  site.workdir = job.program.workdir;
  site.one_machine = true;
  site.cores = coreCount();
  site.root = geteuid() == 0;
  for (const char* name : gang::kThreadVariables) {
    if (std::getenv(name) != nullptr) site.inherited.insert(name);
  }
  std::vector<NetworkAddress> addresses;
  for (const std::string& network : job.local.networks) {
    auto address = networkAddress(network);
    if (!address) return Error(address.error()).during("local.networks");
    site.interface = address->interface;
    addresses.push_back(*std::move(address));
  }
  networks_.clear();
  const gang::Roster roster = gang::makeRoster(job, *planned);
  for (std::size_t i = 0; i < roster.tasks.size(); ++i) {
    const std::string name = roster.tasks[i].name();
    site.tasks[name] = {
        .address = addresses.empty() ? kLoopback : addresses[i % addresses.size()].address,
        .port = port + static_cast<int>(i)};
    if (!addresses.empty()) networks_[name] = job.local.networks[i % addresses.size()];
  }
  site.gpus = assignGpus(roster);
  // After the last of the tasks' own.
  if (gang::strategyOf(job).needsStore()) site.store_port = port + count - 1;
  return site;
}

Status LocalBackend::begin() {
  if (options_.job.port == 0) {
    auto range = findPorts(options_.job.name, gang::portsNeeded(options_.job), true);
    if (!range) return std::move(range).error();
    ports_ = *std::move(range);
  }
  if (auto adopted = adoptOrphans(); !adopted) return adopted;
  children_.add(SIGCHLD);
  waitForChildren();
  return {};
}

void LocalBackend::listen(Handlers handlers) { handlers_ = std::move(handlers); }

// An elastic job gets as many workers as there is room for. Processes share CPUs and memory, so the
// fewest workers start whether or not there is enough of these; GPUs are not shared.
Result<gang::Layout> LocalBackend::layout() const {
  plan::Request request = plan::makeRequest(options_.job);
  request.nodes.selector.clear();
  request.nodes.affinity.clear();
  plan::Inventory machine = machineInventory(request.nodes);
  plan::Node& node = machine.nodes.front();
  if (!machineGpus()) node.free.add(request.nodes.gpu, plan::kUnlimited);
  auto found = plan::place(request, machine);
  if (std::holds_alternative<plan::Shortage>(found)) {
    node.free.millicores = plan::kUnlimited;
    node.free.memory = plan::kUnlimited;
    request.most = request.fewest;
    found = plan::place(request, machine);
  }
  if (const auto* shortage = std::get_if<plan::Shortage>(&found)) {
    return Error(Code::kInvalid, "does not fit on this machine: " + shortage->message());
  }
  return gang::layoutOf(options_.job, std::get<plan::Placement>(found));
}

void LocalBackend::place(int, int workers) {
  gang::Layout now = *planned_;
  now.workers = std::min(now.workers, workers);
  logDebug("local", "places {} workers on this machine", now.workers);
  handlers_.placed(gang::makeRoster(options_.job, now));
}

void LocalBackend::start(const gang::Roster& roster, const gang::JoinOptions& join) {
  for (const gang::Task& task : roster.tasks) {
    if (auto started = startAgent(task.name(), join); !started) {
      handlers_.refused(task.name(), started.error().message(), false);
    }
  }
}

Status LocalBackend::startAgent(const std::string& task, const gang::JoinOptions& join) {
  const auto running = std::find_if(agents_.begin(), agents_.end(),
                                    [&](const auto& agent) { return agent.second == task; });
  if (running != agents_.end()) return {};
  const std::string directory = options_.directory + "/" + task;
  if (auto made = makeDirectories(directory); !made) return made;
  Fd network;
  const auto host = networks_.find(task);
  if (host != networks_.end()) {
    auto opened = openNetwork(host->second);
    if (!opened) return std::move(opened).error();
    network = *std::move(opened);
  }
  std::vector<std::string> environment = currentEnvironment();
  for (std::string& entry : protocol::toEnvironment({.coordinator = join.coordinator,
                            .secret = join.secret,
                            .run = join.run,
                            .task = task,
                            .generation = join.generation,
                            .directory = directory,
                            .encrypted = join.encrypted})) {
    environment.push_back(std::move(entry));
  }
  const Fd log(open((options_.directory + "/agents.log").c_str(),
                    O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  const Fd nothing(open("/dev/null", O_RDONLY | O_CLOEXEC));
  const auto pid = spawn({.argv = {options_.agent, "guard"},
                          .env = environment,
                          .in = nothing.get(),
                          .out = log.get(),
                          .err = log.get(),
                          .death_signal = SIGKILL,
                          .new_session = true,
                          .network = network.get()});
  if (!pid) return pid.error();
  agents_[*pid] = task;
  logDebug("local", "started {} of generation {}: pid {}", task, join.generation, *pid);
  return {};
}

// The guardian is asked, not killed: if we die before we have seen to its descendants, it still
// does. Only one that does not do so is killed.
void LocalBackend::kill(const std::string& task) {
  for (const auto& [pid, name] : agents_) {
    if (name != task) continue;
    logDebug("local", "kills {}: pid {}", task, pid);
    ::kill(pid, protocol::kEndNow);
    ::kill(pid, SIGCONT);
    doomed_.insert(pid);
  }
  force_.expires_after(kGuardianEnds);
  force_.async_wait([this](const boost::system::error_code& error) {
    if (error) return;
    for (const pid_t pid : std::exchange(doomed_, {})) {
      if (agents_.contains(pid)) ::kill(pid, SIGKILL);
    }
  });
}

void LocalBackend::waitForChildren() {
  children_.async_wait([this](const boost::system::error_code& error, int) {
    if (error) return;
    reap();
    waitForChildren();
  });
}

// An agent that ends by itself has seen to its descendants, and so has its guardian. If both were
// killed, they have become our children, and their task is gone when they are. So is it when they
// cannot be killed, but then somebody has to know.
void LocalBackend::reap() {
  pid_t pid = 0;
  while ((pid = waitpid(-1, nullptr, WNOHANG)) > 0) {
    left_.erase(pid);
    if (purge_) purge_->progress();
    const auto agent = agents_.find(pid);
    if (agent == agents_.end()) continue;
    logDebug("local", "{} has ended: pid {}", agent->second, pid);
    ended_.push_back(agent->second);
    agents_.erase(agent);
  }
  if (ended_.empty()) return;
  std::vector<pid_t> strays = childProcesses();
  std::erase_if(strays,
                [&](pid_t child) { return agents_.contains(child) || left_.contains(child); });
  if (!strays.empty()) {
    if (!purge_) purge_.emplace(kPurgePatience);
    if (!purge_->exhausted()) {
      again_.expires_after(purge_->strike(strays));
      again_.async_wait([this](const boost::system::error_code& error) {
        if (!error) reap();
      });
      return;
    }
    left_.insert(strays.begin(), strays.end());
    if (handlers_.left) handlers_.left(describeProcesses(strays));
  }
  purge_.reset();
  for (const std::string& task : std::exchange(ended_, {})) {
    if (handlers_.gone) handlers_.gone(task);
  }
}

}  // namespace dure::local
