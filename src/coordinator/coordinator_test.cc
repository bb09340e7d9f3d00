#include "coordinator/coordinator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/ip/tcp.hpp>
#include <set>

#include "protocol/protocol.h"

namespace dure::coordinator {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using namespace std::chrono_literals;

class FakeBackend : public gang::Backend {
 public:
  Result<gang::Site> survey() override { return gang::Site{}; }
  void start(const gang::Roster& roster, const gang::JoinOptions&) override {
    for (const gang::Task& task : roster.tasks) {
      if (refusal.count(task.name()) > 0) {
        handlers.refused(task.name(), "no room", false);
      } else {
        started.push_back(task.name());
      }
    }
  }
  void kill(const std::string& task) override { killed.push_back(task); }
  void listen(Handlers given) override { handlers = std::move(given); }
  void place(int, int workers) override { handlers.placed(gang::makeRoster(job, workers)); }
  void gone(const std::string& task) const { handlers.gone(task); }

  std::set<std::string> refusal;
  spec::Job job;
  std::vector<std::string> started;
  std::vector<std::string> killed;
  Handlers handlers;
};

class FakeJournal : public gang::Journal {
 public:
  void append(const std::vector<gang::Entry>& entries,
              std::function<void(const Status&)> written) override {
    if (full) return written(Error(Code::kIo, "write the journal: No space left on device"));
    for (const gang::Entry& entry : entries) kinds.push_back(gang::entryKindName(entry.kind));
    if (!slow) return written({});
    waiting = std::move(written);
  }
  bool full = false;
  bool slow = false;  // somebody else says when it is written
  std::function<void(const Status&)> waiting;
  std::vector<std::string> kinds;
};

class FakeObserver : public Observer {
 public:
  void entry(const gang::Entry&) override {}
  Status output(int generation, int rank, std::string_view lines) override {
    if (full) return Error(Code::kIo, "write the log: No space left on device");
    printed.push_back(std::to_string(generation) + "/" + std::to_string(rank) + " " +
                      std::string(lines));
    return {};
  }
  Status metric(int, int rank, std::string_view line) override {
    metrics.push_back(std::to_string(rank) + " " + std::string(line));
    return {};
  }
  bool full = false;
  std::vector<std::string> printed;
  std::vector<std::string> metrics;
};

// The other end of the wire, by hand.
class TestAgent {
 public:
  TestAgent(asio::io_context& loop, int port, const std::string& key = "") {
    asio::ip::tcp::socket socket(loop);
    socket.connect({asio::ip::make_address("127.0.0.1"), static_cast<unsigned short>(port)});
    connection = std::make_shared<net::Connection>(net::Connection::Socket(std::move(socket)));
    if (!key.empty()) connection->encrypt(key, net::TlsSide::kClient);
    connection->start({.frame =
                           [this](const net::Frame& frame) {
                             if (frame.type == protocol::raw(protocol::MessageType::kFolder)) {
                               folder += frame.payload;
                               return;
                             }
                             types.push_back(static_cast<protocol::MessageType>(frame.type));
                             last = std::string(frame.payload);
                           },
                       .closed = [this](const std::string&) { closed = true; },
                       .drained = nullptr});
  }
  ~TestAgent() { connection->close(); }
  template <typename Message>
  void send(protocol::MessageType type, const Message& message) {
    connection->send(protocol::raw(type), protocol::encode(message));
  }
  void hello(const std::string& task, int generation = 1, const std::string& secret = "secret") {
    send(protocol::MessageType::kHello,
         protocol::Hello{.secret = secret, .run = "job.1", .generation = generation, .task = task});
  }
  void print(std::int64_t process, const std::string& text) {
    connection->send(protocol::raw(protocol::MessageType::kOutput),
                     protocol::encodeChunk(process, text));
  }

  std::shared_ptr<net::Connection> connection;
  std::vector<protocol::MessageType> types;
  std::string last;
  std::string folder;
  bool closed = false;
};

class CoordinatorTest : public testing::Test {
 protected:
  void start(int workers, int cores = 0) {
    spec::Job job;
    job.name = "job";
    job.program.command = {"prog"};
    job.workers = {workers, workers};
    backend.job = job;
    gang::Site site;
    site.address = "127.0.0.1";
    site.listen = site.address;
    site.lease = lease;
    site.cores = cores;
    site.names = names;
    for (const gang::Task& task : gang::makeRoster(job, workers).tasks) {
      site.tasks[task.name()] = {names ? task.name() + ".job-1" : "127.0.0.1", 1};
    }
    coordinator = std::make_unique<Coordinator>(loop, clock, backend, journal,
                                                std::vector<Observer*>{&observer},
                                                Coordinator::Options{.run = "job.1",
                                                                     .secret = "secret",
                                                                     .job = job,
                                                                     .site = site,
                                                                     .before = {},
                                                                     .folder = folder,
                                                                     .folder_hash = ""});
    ASSERT_TRUE(coordinator->start([this](gang::Outcome o, const std::string& why) {
      outcome = o;
      reason = why;
    }));
  }
  void TearDown() override {
    coordinator.reset();
    loop.restart();
    loop.poll();
  }
  // Turns the loop until `done`, or fails after a few seconds.
  template <typename Done>
  void until(Done done) {
    const auto deadline = std::chrono::steady_clock::now() + 5s;
    while (!done() && std::chrono::steady_clock::now() < deadline) {
      loop.restart();
      loop.run_for(5ms);
    }
    ASSERT_TRUE(done());
  }
  bool got(const TestAgent& agent, protocol::MessageType type) {
    return std::find(agent.types.begin(), agent.types.end(), type) != agent.types.end();
  }

  asio::io_context loop;
  SystemClock clock;
  FakeBackend backend;
  FakeJournal journal;
  FakeObserver observer;
  std::unique_ptr<Coordinator> coordinator;
  std::optional<gang::Outcome> outcome;
  std::string reason;
  Duration lease{0};
  bool names = false;
  std::string folder;
};

TEST_F(CoordinatorTest, NothingStartsBeforeTheJournalHasIt) {
  journal.slow = true;
  start(1);
  EXPECT_TRUE(backend.started.empty());
  ASSERT_TRUE(journal.waiting);
  std::exchange(journal.waiting, nullptr)({});
  EXPECT_EQ(backend.started.size(), 1U);
}

TEST_F(CoordinatorTest, WhatWaitsForTheJournalIsWrittenTogether) {
  start(2);
  journal.slow = true;
  TestAgent first(loop, coordinator->port()), second(loop, coordinator->port());
  first.hello("worker-0");
  until([&] { return journal.waiting != nullptr; });
  second.hello("worker-1");
  until([&] { return coordinator->gang().phase() == gang::Gang::Phase::kRunning; });
  EXPECT_FALSE(got(first, protocol::MessageType::kStart)) << "that it runs is not written yet";
  journal.slow = false;
  std::exchange(journal.waiting, nullptr)({});
  EXPECT_THAT(journal.kinds, ElementsAre("starting", "joined", "joined", "running"));
  until([&] {
    return got(first, protocol::MessageType::kStart) && got(second, protocol::MessageType::kStart);
  });
}

TEST_F(CoordinatorTest, StrangersAreFewAndAnAgentGetsInAmongThem) {
  start(1);
  constexpr int kStrangers = 400;
  std::vector<std::unique_ptr<TestAgent>> strangers;
  for (int i = 0; i < kStrangers; ++i) {
    strangers.push_back(std::make_unique<TestAgent>(loop, coordinator->port()));
  }
  const auto sentAway = [&] {
    return std::count_if(strangers.begin(), strangers.end(),
                         [](const auto& stranger) { return stranger->closed; });
  };
  TestAgent agent(loop, coordinator->port());
  agent.hello("worker-0");
  until([&] { return got(agent, protocol::MessageType::kStart); });
  EXPECT_FALSE(agent.closed);
  // All but some hundred, long before their time is over.
  until([&] { return sentAway() >= kStrangers - 130; });
}

TEST_F(CoordinatorTest, AReportThatCannotBeReadIsDroppedAndToldOnce) {
  start(1);
  TestAgent agent(loop, coordinator->port());
  agent.hello("worker-0");
  until([&] { return got(agent, protocol::MessageType::kStart); });
  const std::string deep = std::string(1000, '[') + std::string(1000, ']');
  for (const std::string& line : {deep, deep, std::string(R"({"step":1})")}) {
    agent.connection->send(protocol::raw(protocol::MessageType::kMetric),
                           protocol::encodeChunk(0, line + "\n"));
  }
  until([&] { return !observer.metrics.empty(); });
  EXPECT_THAT(observer.metrics, ElementsAre(R"(0 {"step":1})"));
  EXPECT_EQ(std::count(journal.kinds.begin(), journal.kinds.end(), "warned"), 1);
}

TEST_F(CoordinatorTest, TheFolderComesBeforeTheAgentCounts) {
  folder = std::string(3u << 20u, 'x');
  start(1);
  TestAgent agent(loop, coordinator->port());
  agent.hello("worker-0");
  until([&] { return agent.folder.size() == folder.size(); });
  EXPECT_EQ(agent.folder, folder);
  EXPECT_EQ(coordinator->gang().phase(), gang::Gang::Phase::kStarting);
  agent.connection->send(protocol::raw(protocol::MessageType::kReady), "");
  until([&] { return got(agent, protocol::MessageType::kStart); });
}

TEST_F(CoordinatorTest, WithALeaseBeatsAreAnsweredAndEverythingIsEncrypted) {
  lease = Duration(5'000);
  start(1);
  TestAgent plain(loop, coordinator->port());
  plain.hello("worker-0");
  until([&] { return plain.closed; });
  TestAgent stranger(loop, coordinator->port(), "another secret");
  stranger.hello("worker-0");
  until([&] { return stranger.closed; });
  EXPECT_TRUE(stranger.types.empty());
  TestAgent agent(loop, coordinator->port(), "secret");
  agent.hello("worker-0");
  until([&] { return got(agent, protocol::MessageType::kStart); });
  agent.send(protocol::MessageType::kBeat, protocol::Beat{});
  until([&] { return got(agent, protocol::MessageType::kAlive); });
}

TEST_F(CoordinatorTest, RunsAGangToItsEnd) {
  start(2);
  TestAgent a(loop, coordinator->port());
  TestAgent b(loop, coordinator->port());
  a.hello("worker-0");
  until([&] { return got(a, protocol::MessageType::kWelcome); });
  EXPECT_FALSE(got(a, protocol::MessageType::kStart)) << "before the gang is complete";
  b.hello("worker-1");
  until([&] {
    return got(a, protocol::MessageType::kStart) && got(b, protocol::MessageType::kStart);
  });
  const auto begin = protocol::decode<protocol::Start>(b.last);
  ASSERT_TRUE(begin);
  EXPECT_EQ(begin->processes.at(0).env.at("DURE_RANK"), "1");
  a.print(0, "hello\n");
  a.send(protocol::MessageType::kExited, protocol::Exited{.process = 0});
  b.send(protocol::MessageType::kExited, protocol::Exited{.process = 0});
  until(
      [&] { return got(a, protocol::MessageType::kStop) && got(b, protocol::MessageType::kStop); });
  // The final output comes after the backend has seen the task go.
  backend.gone("worker-0");
  backend.gone("worker-1");
  a.print(0, "last words\n");
  for (TestAgent* agent : {&a, &b}) {
    agent->connection->send(protocol::raw(protocol::MessageType::kFinished), "");
    agent->connection->finish();
  }
  until([&] { return outcome.has_value(); });
  EXPECT_EQ(outcome, gang::Outcome::kSucceeded);
  EXPECT_THAT(observer.printed, ElementsAre("1/0 hello\n", "1/0 last words\n"));
  EXPECT_THAT(journal.kinds, ElementsAre("starting", "joined", "joined", "running", "exited",
                                         "exited", "stopping", "ended", "finished"));
}

TEST_F(CoordinatorTest, StrangersAreRefused) {
  start(1);
  struct Case {
    std::string task;
    int generation;
    std::string secret;
    std::string why;
  };
  for (const Case& c : std::vector<Case>{{"worker-0", 1, "Secret", "wrong secret"},
                                         {"worker-0", 1, "", "wrong secret"},
                                         {"worker-0", 0, "secret", "not expected"},
                                         {"worker-0", 2, "secret", "not expected"},
                                         {"worker-7", 1, "secret", "not expected"}}) {
    TestAgent agent(loop, coordinator->port());
    agent.hello(c.task, c.generation, c.secret);
    until([&] { return agent.closed; });
    EXPECT_THAT(agent.types, ElementsAre(protocol::MessageType::kRefused));
    EXPECT_THAT(agent.last, HasSubstr(c.why));
  }
  TestAgent garbage(loop, coordinator->port());
  garbage.connection->send(3, "\x01");
  until([&] { return garbage.closed; });
  EXPECT_THAT(journal.kinds, ElementsAre("starting"));
}

TEST_F(CoordinatorTest, OutputForAProcessThatIsNotItsOwnEndsTheAgent) {
  start(1);
  TestAgent agent(loop, coordinator->port());
  agent.hello("worker-0");
  until([&] { return got(agent, protocol::MessageType::kStart); });
  agent.print(1, "I am rank 1\n");
  until([&] { return agent.closed; });
  EXPECT_THAT(observer.printed, testing::IsEmpty());
  EXPECT_THAT(backend.killed, Contains("worker-0"));
}

TEST_F(CoordinatorTest, WhatTheJournalDidNotTakeIsNotDone) {
  start(1);
  journal.full = true;
  TestAgent agent(loop, coordinator->port());
  agent.hello("worker-0");
  until([&] { return got(agent, protocol::MessageType::kStop); });
  EXPECT_FALSE(got(agent, protocol::MessageType::kStart));
  backend.gone("worker-0");
  agent.connection->finish();
  until([&] { return outcome.has_value(); });
  EXPECT_EQ(outcome, gang::Outcome::kInfrastructureFailed);
  EXPECT_THAT(reason, HasSubstr("No space left on device"));
}

TEST_F(CoordinatorTest, ALogThatCannotBeWrittenEndsTheRun) {
  start(1);
  TestAgent agent(loop, coordinator->port());
  agent.hello("worker-0");
  until([&] { return got(agent, protocol::MessageType::kStart); });
  observer.full = true;
  agent.print(0, "lost\n");
  until([&] { return got(agent, protocol::MessageType::kStop); });
  backend.gone("worker-0");
  agent.connection->finish();
  until([&] { return outcome.has_value(); });
  EXPECT_EQ(outcome, gang::Outcome::kInfrastructureFailed);
}

TEST_F(CoordinatorTest, MetricsAreHandedOnLineByLine) {
  start(1);
  TestAgent agent(loop, coordinator->port());
  agent.hello("worker-0");
  until([&] { return got(agent, protocol::MessageType::kStart); });
  agent.connection->send(protocol::raw(protocol::MessageType::kMetric),
                         protocol::encodeChunk(0, "{\"step\":1}\n{\"step\":2}\n"));
  until([&] { return observer.metrics.size() == 2; });
  EXPECT_THAT(observer.metrics, ElementsAre("0 {\"step\":1}", "0 {\"step\":2}"));
}

TEST_F(CoordinatorTest, ACommandGoesToTheTaskItNamesAndItsOutputComesBack) {
  start(2);
  TestAgent a(loop, coordinator->port());
  TestAgent b(loop, coordinator->port());
  a.hello("worker-0");
  b.hello("worker-1");
  until([&] {
    return got(a, protocol::MessageType::kStart) && got(b, protocol::MessageType::kStart);
  });
  a.send(protocol::MessageType::kExec,
         protocol::Exec{.id = 42, .task = "worker-1", .argv = {"orted"}});
  until([&] { return got(b, protocol::MessageType::kExec); });
  b.connection->send(protocol::raw(protocol::MessageType::kExecOutput),
                     protocol::encodeChunk(84, "hi\n"));
  b.send(protocol::MessageType::kExecExited, protocol::ExecExited{.id = 42, .status = {3, 0}});
  until([&] {
    return got(a, protocol::MessageType::kExecOutput) && got(a, protocol::MessageType::kExecExited);
  });
  EXPECT_EQ(protocol::decode<protocol::ExecExited>(a.last)->status.code, 3);
  a.send(protocol::MessageType::kExec,
         protocol::Exec{.id = 43, .task = "worker-9", .argv = {"orted"}});
  until([&] { return a.last.find("no task worker-9") != std::string::npos; });
}

TEST_F(CoordinatorTest, MoreRanksThanCoresAreLetInAsOthersHaveLoaded) {
  start(3, 1);
  std::vector<std::unique_ptr<TestAgent>> agents;
  for (int i = 0; i < 3; ++i) {
    agents.push_back(std::make_unique<TestAgent>(loop, coordinator->port()));
    agents.back()->hello("worker-" + std::to_string(i));
  }
  until([&] { return got(*agents[0], protocol::MessageType::kStart); });
  EXPECT_FALSE(got(*agents[1], protocol::MessageType::kStart));
  agents[0]->connection->send(protocol::raw(protocol::MessageType::kLoaded), "");
  until([&] { return got(*agents[1], protocol::MessageType::kStart); });
  EXPECT_FALSE(got(*agents[2], protocol::MessageType::kStart));
  agents[1]->send(protocol::MessageType::kExited, protocol::Exited{.process = 0});
  until([&] { return got(*agents[2], protocol::MessageType::kStart); });
}

TEST_F(CoordinatorTest, WhyAnAgentCannotStartItsProgramsEndsTheRunInThatSentence) {
  folder = "packed";
  start(1);
  TestAgent agent(loop, coordinator->port());
  agent.hello("worker-0");
  until([&] { return got(agent, protocol::MessageType::kWelcome); });
  agent.send(protocol::MessageType::kUnable, protocol::Unable{"out: No space left on device"});
  agent.connection->send(protocol::raw(protocol::MessageType::kFinished), "");
  agent.connection->finish();
  until([&] { return coordinator->gang().hasFinished("worker-0"); });
  EXPECT_FALSE(outcome) << "it is still there";
  backend.gone("worker-0");
  until([&] { return outcome.has_value(); });
  EXPECT_EQ(outcome, gang::Outcome::kInfrastructureFailed);
  EXPECT_EQ(reason, "worker-0 cannot start: out: No space left on device");
}

TEST_F(CoordinatorTest, NobodyStartsBeforeAllKnowTheNamesOfAll) {
  names = true;
  start(2);
  TestAgent a(loop, coordinator->port());
  TestAgent b(loop, coordinator->port());
  a.hello("worker-0");
  b.hello("worker-1");
  until([&] {
    return got(a, protocol::MessageType::kNames) && got(b, protocol::MessageType::kNames);
  });
  const auto asked = protocol::decode<protocol::Names>(a.last);
  ASSERT_TRUE(asked);
  EXPECT_THAT(asked->names, ElementsAre("worker-0.job-1", "worker-1.job-1"));
  a.connection->send(protocol::raw(protocol::MessageType::kNamed), "");
  a.print(0, "received");
  until([&] { return !observer.printed.empty(); });
  EXPECT_FALSE(got(a, protocol::MessageType::kStart)) << "worker-1 does not know the names yet";
  b.connection->send(protocol::raw(protocol::MessageType::kNamed), "");
  until([&] {
    return got(a, protocol::MessageType::kStart) && got(b, protocol::MessageType::kStart);
  });
}

TEST_F(CoordinatorTest, AGangThatIsStoppedWhileItIsLetInStartsNoMore) {
  start(2, 1);
  TestAgent a(loop, coordinator->port());
  TestAgent b(loop, coordinator->port());
  a.hello("worker-0");
  b.hello("worker-1");
  until([&] { return got(a, protocol::MessageType::kStart); });
  coordinator->stop("interrupted", false);
  a.connection->send(protocol::raw(protocol::MessageType::kLoaded), "");
  until([&] { return got(b, protocol::MessageType::kStop); });
  EXPECT_FALSE(got(b, protocol::MessageType::kStart));
}

TEST_F(CoordinatorTest, ATaskThatCannotBeStartedFailsThePlace) {
  backend.refusal = {"worker-0"};
  start(1);
  until([&] { return outcome.has_value(); });
  EXPECT_EQ(outcome, gang::Outcome::kInfrastructureFailed);
  EXPECT_THAT(reason, HasSubstr("no room"));
}

}  // namespace
}  // namespace dure::coordinator
