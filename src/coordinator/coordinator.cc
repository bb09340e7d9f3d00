#include "coordinator/coordinator.h"

#include <algorithm>

#include <fmt/core.h>

#include "base/log.h"
#include "base/text.h"
#include "coordinator/coordinator_agent.h"
#include "coordinator/coordinator_log.h"
#include "protocol/report.h"

namespace dure::coordinator {
namespace {

using tcp = asio::ip::tcp;

constexpr const char* kPart = "coordinator";
constexpr auto kTick = std::chrono::milliseconds(100);
// For what an agent has sent before it ended.
constexpr auto kFinalOutputPatience = std::chrono::seconds(5);
// The folder goes in pieces of this size.
constexpr std::size_t kFolderPiece = 256u << 10u;

}  // namespace

Coordinator::Coordinator(asio::io_context& loop, const Clock& clock, gang::Backend& backend,
                         gang::Journal& journal, std::vector<Observer*> observers, Options options)
    : loop_(loop),
      clock_(clock),
      backend_(backend),
      journal_(journal),
      observers_(std::move(observers)),
      options_(std::move(options)),
      gang_(options_.job, options_.before),
      acceptor_(loop),
      accept_again_(loop),
      timer_(loop) {}

Coordinator::~Coordinator() {
  for (const auto& [task, agent] : agents_) agent->connection->close();
  for (const auto& stranger : strangers_) stranger->connection->close();
}

Status Coordinator::start(std::function<void(gang::Outcome, const std::string&)> finished) {
  finished_ = std::move(finished);
  try {
    const tcp::endpoint endpoint(asio::ip::make_address(options_.site.listen), 0);
    acceptor_.open(endpoint.protocol());
    acceptor_.bind(endpoint);
    acceptor_.listen();
    logInfo(kPart, "run {} listens on {}:{}", options_.run, options_.site.listen, port());
  } catch (const boost::system::system_error& error) {
    return Error(Code::kUnavailable,
                 "listen on " + options_.site.listen + ": " + error.code().message());
  }
  if (options_.site.store_port != 0) {
    auto server = net::HttpServer::listen(
        loop_, options_.site.listen, options_.site.store_port,
        [this](const net::HttpRequest& request) {
          auto reply = store_.handle(request.method, request.path, request.body);
          return net::HttpReply{.status = reply.status, .body = std::move(reply.body)};
        });
    if (!server) return std::move(server).error();
    store_server_ = *std::move(server);
  }
  backend_.listen(
      {.placed =
           [this](const gang::Roster& roster) {
             see(gang::GangPlaced{roster, backend_.choosesNodes()});
           },
       .waits = [this](const std::string& why) { see(gang::GangWaits{why}); },
       .impossible = [this](const std::string& why) { see(gang::InfrastructureFailed{why}); },
       .refused =
           [this](const std::string& task, const std::string& why, bool for_good) {
             see(gang::TaskRefused{.task = task, .why = why, .for_good = for_good});
           },
       .taken =
           [this](const std::string& task, const std::string& why, bool by_program) {
             see(gang::TaskLost{.task = task, .why = why, .by_program = by_program});
           },
       .gone = [this](const std::string& task) { gone(task); },
       .left = [this](const std::string& who) { see(gang::ProcessesLeft{who}); }});
  accept();
  tick();
  for (gang::Action& action : gang_.begin(clock_.now())) pending_.push_back(std::move(action));
  work();
  return {};
}

void Coordinator::stop(const std::string& why, bool at_once) {
  see(gang::StopAsked{.why = why, .at_once = at_once});
}

void Coordinator::tick() {
  timer_.expires_after(kTick);
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (error) return;
    see(gang::Tick{});
    if (gang_.phase() != gang::Gang::Phase::kFinished) tick();
  });
}

void Coordinator::greet(const std::shared_ptr<Agent>& agent, const net::Frame& frame) {
  const auto hello = protocol::decode<protocol::Hello>(frame.payload);
  if (frame.type != protocol::raw(protocol::MessageType::kHello) || !hello)
    return refuse(*agent, "not an agent");
  // Who does not know the secret learns nothing else.
  if (!equalInConstantTime(hello->secret, options_.secret)) return refuse(*agent, "wrong secret");
  if (hello->version != protocol::kProtocolVersion) {
    return refuse(*agent, fmt::format("protocol {} where {} is spoken", hello->version,
                                      protocol::kProtocolVersion));
  }
  if (hello->run != options_.run) return refuse(*agent, "another run");
  if (!gang_.expects(hello->task, hello->generation)) {
    return refuse(
        *agent, fmt::format("{} of generation {} is not expected", hello->task, hello->generation));
  }
  agent->patience->cancel();
  std::erase(strangers_, agent);
  agent->task = hello->task;
  agent->generation = hello->generation;
  agent->host = hello->host;
  agent->pid = hello->pid;
  agent->connection->setLimit(net::kMaxFrame);
  agents_[agent->task] = agent;
  logDebug(kPart, "welcomes {} of generation {}", agent->task, agent->generation);
  agent->send(protocol::MessageType::kWelcome,
              protocol::Welcome{.stop_ms = options_.job.timeouts.stop.count(),
                                .lease_ms = options_.site.lease.count(),
                                .folder_bytes = static_cast<std::int64_t>(options_.folder.size()),
                                .folder_hash = options_.folder_hash});
  if (options_.folder.empty()) return joined(*agent);
  sendFolder(*agent);
}

void Coordinator::sendFolder(Agent& agent) {
  if (agent.task.empty()) return;
  const std::string_view folder = options_.folder;
  while (agent.folder_sent < folder.size() &&
         agent.connection->queued() < net::Connection::kHighWater) {
    const std::string_view piece = folder.substr(agent.folder_sent, kFolderPiece);
    agent.connection->send(protocol::raw(protocol::MessageType::kFolder), piece);
    agent.folder_sent += piece.size();
  }
}

void Coordinator::joined(Agent& agent) {
  if (std::exchange(agent.joined, true) || !gang_.expects(agent.task, agent.generation)) return;
  see(gang::TaskJoined{.task = agent.task,
                       .host = agent.host,
                       .pid = agent.pid,
                       .node = backend_.nodeOf(agent.task)});
}

void Coordinator::receive(Agent& agent, const net::Frame& frame) {
  // A connection of an earlier generation is closed when the next one starts; this is for what
  // was already on its way.
  if (agent.generation != gang_.generation()) return agent.connection->close();
  const gang::Task& task = *gang_.roster().find(agent.task);
  const auto lie = [&](const std::string& what) {
    agent.connection->close();
    disconnected(agent, "its agent sent " + what);
  };
  switch (static_cast<protocol::MessageType>(frame.type)) {
    case protocol::MessageType::kOutput:
    case protocol::MessageType::kMetric: {
      const auto chunk = protocol::decodeChunk(frame.payload);
      if (!chunk || chunk->number < 0 || chunk->number >= task.processes) {
        return lie("output of no process of its own");
      }
      const int rank = task.first_rank + static_cast<int>(chunk->number);
      const bool output = frame.type == protocol::raw(protocol::MessageType::kOutput);
      const auto kept = output ? keepOutput(agent.generation, rank, chunk->bytes)
                               : keepMetrics(agent, rank, chunk->bytes);
      if (!kept) see(gang::InfrastructureFailed{kept.error().message()});
      return;
    }
    case protocol::MessageType::kReady:
      return joined(agent);
    case protocol::MessageType::kNamed:
      return named(agent.task);
    case protocol::MessageType::kLoaded:
      return loaded(agent.task);
    case protocol::MessageType::kUnable: {
      const auto unable = protocol::decode<protocol::Unable>(frame.payload);
      if (!unable) return lie("a broken message");
      return see(gang::TaskRefused{
          .task = agent.task, .why = unable->reason, .for_good = true, .is_there = true});
    }
    case protocol::MessageType::kExited: {
      const auto exit = protocol::decode<protocol::Exited>(frame.payload);
      if (!exit) return lie("a broken message");
      loaded(agent.task);
      return see(gang::ProcessExited{.task = agent.task, .exit = *exit});
    }
    case protocol::MessageType::kBeat: {
      const auto beat = protocol::decode<protocol::Beat>(frame.payload);
      if (!beat) return lie("a broken message");
      if (options_.site.lease.count() > 0)
        agent.connection->send(protocol::raw(protocol::MessageType::kAlive), "");
      return see(gang::TaskBeat{.task = agent.task, .silent_ms = beat->silent_ms});
    }
    case protocol::MessageType::kFinished:
      agent.finished = true;
      see(gang::TaskFinished{agent.task});
      return backend_.finished(agent.task);
    case protocol::MessageType::kExec:
    case protocol::MessageType::kExecOutput:
    case protocol::MessageType::kExecExited:
    case protocol::MessageType::kExecCancel:
      return relay(agent, frame);
    default:
      return lie("a message of an unknown kind");
  }
}

Status Coordinator::keepOutput(int generation, int rank, std::string_view lines) {
  for (Observer* observer : observers_) {
    if (auto kept = observer->output(generation, rank, lines); !kept) return kept;
  }
  return {};
}

Status Coordinator::keepMetrics(const Agent& agent, int rank, std::string_view lines) {
  for (const std::string& line : split(lines, '\n')) {
    if (line.empty()) continue;
    if (const auto readable = protocol::checkReport(line); !readable) {
      // Once is enough: who reports so does so in every step.
      if (dropped_.insert(rank).second) {
        see(gang::ReportDropped{
            .task = agent.task, .rank = rank, .why = readable.error().message()});
      }
      continue;
    }
    for (Observer* observer : observers_) {
      if (auto kept = observer->metric(agent.generation, rank, line); !kept) return kept;
    }
  }
  return {};
}

// A command goes from the agent that was asked to the one that is to run it; what it prints and how
// it ends goes back. Its number was drawn at random by the first, so it is nobody else's.
void Coordinator::relay(Agent& agent, const net::Frame& frame) {
  const auto type = static_cast<protocol::MessageType>(frame.type);
  const auto forward = [&](const std::string& task, std::string_view payload) {
    const auto to = agents_.find(task);
    if (to != agents_.end()) to->second->connection->send(frame.type, payload);
    return to != agents_.end();
  };
  if (type == protocol::MessageType::kExec) {
    const auto exec = protocol::decode<protocol::Exec>(frame.payload);
    if (!exec) return;
    execs_[exec->id] = {agent.task, exec->task};
    if (!forward(exec->task, frame.payload)) {
      execs_.erase(exec->id);
      agent.send(
          protocol::MessageType::kExecExited,
          protocol::ExecExited{.id = exec->id, .error = "no task " + exec->task + " in this gang"});
    }
    return;
  }
  std::int64_t id = 0;
  if (type == protocol::MessageType::kExecOutput) {
    const auto chunk = protocol::decodeChunk(frame.payload);
    if (!chunk) return;
    id = chunk->number / 2;
  } else if (type == protocol::MessageType::kExecExited) {
    const auto exited = protocol::decode<protocol::ExecExited>(frame.payload);
    if (!exited) return;
    id = exited->id;
  } else {
    const auto cancel = protocol::decode<protocol::ExecCancel>(frame.payload);
    if (!cancel) return;
    id = cancel->id;
  }
  const auto exec = execs_.find(id);
  if (exec == execs_.end()) return;
  const auto [from, to] = exec->second;
  // Only the two ends of a command may speak about it.
  if (type == protocol::MessageType::kExecCancel ? agent.task != from : agent.task != to) return;
  forward(type == protocol::MessageType::kExecCancel ? to : from, frame.payload);
  if (type == protocol::MessageType::kExecExited) execs_.erase(id);
}

void Coordinator::disconnected(Agent& agent, const std::string& why) {
  agent.patience->cancel();
  if (agent.task.empty()) {
    std::erase_if(strangers_, [&](const auto& stranger) { return stranger.get() == &agent; });
    return;
  }
  const auto known = agents_.find(agent.task);
  if (known == agents_.end() || known->second.get() != &agent) return;
  const std::shared_ptr<Agent> last = known->second;
  agents_.erase(known);
  if (!last->finished) see(gang::TaskLost{.task = last->task, .why = why});
  if (last->gone) see(gang::TaskGone{last->task});
}

// The task's final output may still be in the connection: the task is gone when that has been read.
// A host that lost its power does not close connections, so the coordinator does not wait long.
void Coordinator::gone(const std::string& task) {
  const auto known = agents_.find(task);
  if (known == agents_.end()) return see(gang::TaskGone{task});
  const std::shared_ptr<Agent> agent = known->second;
  agent->gone = true;
  agent->patience->expires_after(kFinalOutputPatience);
  agent->patience->async_wait([this, agent](const boost::system::error_code& cancelled) {
    if (cancelled) return;
    agent->connection->close();
    disconnected(*agent, "its connection hangs");
  });
}

// Decisions are made one after the other: what an action makes us see is handled after the actions
// that were decided before.
void Coordinator::see(const gang::Seen& seen) {
  if (isLogged(LogLevel::kInfo) && !std::holds_alternative<gang::Tick>(seen)) {
    const bool often = std::holds_alternative<gang::TaskBeat>(seen);
    often ? logDebug(kPart, "sees {}", described(seen))
          : logInfo(kPart, "sees {}", described(seen));
  }
  for (gang::Action& action : gang_.handle(seen, clock_.now()))
    pending_.push_back(std::move(action));
  work();
}

// Goes on until everything is done or the journal has to be waited for.
void Coordinator::work() {
  if (performing_) return;
  performing_ = true;
  while (!pending_.empty() && !writing_) {
    std::vector<gang::Entry> entries;
    while (!pending_.empty() && std::holds_alternative<gang::Write>(pending_.front())) {
      entries.push_back(std::get<gang::Write>(std::move(pending_.front())).entry);
      pending_.pop_front();
    }
    if (!entries.empty()) {
      for (const gang::Entry& entry : entries) {
        logDebug(kPart, "writes {} to the journal", gang::entryKindName(entry.kind));
      }
      performWrites(entries);
      continue;
    }
    const gang::Action action = std::move(pending_.front());
    pending_.pop_front();
    perform(action);
  }
  performing_ = false;
}

void Coordinator::perform(const gang::Action& action) {
  if (isLogged(LogLevel::kInfo)) logInfo(kPart, "does {}", described(action));
  if (const auto* place = std::get_if<gang::PlaceGang>(&action)) {
    return backend_.place(place->generation, place->workers);
  }
  if (std::holds_alternative<gang::StartGang>(action)) return performStart();
  if (std::holds_alternative<gang::Release>(action)) return performRelease();
  if (const auto* stop = std::get_if<gang::StopTask>(&action)) return performStop(*stop);
  if (const auto* kill = std::get_if<gang::KillTask>(&action)) return backend_.kill(kill->task);
  const auto& finish = std::get<gang::Finish>(action);
  timer_.cancel();
  accept_again_.cancel();
  boost::system::error_code ignored;
  acceptor_.close(ignored);
  store_server_.reset();
  if (finished_) std::exchange(finished_, nullptr)(finish.outcome, finish.reason);
}

void Coordinator::performWrites(const std::vector<gang::Entry>& entries) {
  if (broken_) return written(entries, {});
  writing_ = true;
  journal_.append(entries, [this, entries](const Status& status) { written(entries, status); });
}

void Coordinator::written(const std::vector<gang::Entry>& entries, const Status& status) {
  writing_ = false;
  if (status) {
    for (Observer* observer : observers_) {
      for (const gang::Entry& entry : entries) observer->entry(entry);
    }
  } else {
    broken_ = true;
    // Nothing that was decided on the strength of these entries may happen any more.
    std::erase_if(pending_, [](const gang::Action& a) {
      return std::holds_alternative<gang::StartGang>(a) || std::holds_alternative<gang::Release>(a);
    });
    see(gang::InfrastructureFailed{status.error().message()});
  }
  work();
}

void Coordinator::performStart() {
  backend_.start(gang_.roster(), {.run = options_.run,
                                  .generation = gang_.generation(),
                                  .coordinator = fmt::format("{}:{}", options_.site.listen, port()),
                                  .secret = options_.secret,
                                  .encrypted = options_.site.lease.count() > 0});
}

void Coordinator::performStop(const gang::StopTask& action) {
  waiting_.clear();
  const auto agent = agents_.find(action.task);
  if (agent == agents_.end()) {
    // Without a connection there is nobody to ask, unless it has left cleanly.
    if (!gang_.hasFinished(action.task)) backend_.kill(action.task);
    return;
  }
  agent->second->send(protocol::MessageType::kStop, protocol::Stop{action.grace.count()});
}

}  // namespace dure::coordinator
