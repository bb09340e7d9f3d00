#include "coordinator/coordinator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/ip/tcp.hpp>
#include <set>

#include "protocol/protocol.h"

namespace dure {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using namespace std::chrono_literals;

class FakeBackend : public Backend {
 public:
  Result<Site> survey(const Job&) override { return Site{}; }
  Status start(const TaskSpec& task) override {
    if (refusal.count(task.task) > 0) return Error(Code::kUnavailable, "no room");
    started.push_back(task);
    return {};
  }
  void kill(const std::string& task) override { killed.push_back(task); }
  void listen(Handlers given) override { handlers = std::move(given); }
  void place(int, int workers) override { handlers.placed(Layout{workers}); }
  void gone(const std::string& task) const { handlers.gone(task); }

  std::set<std::string> refusal;
  std::vector<TaskSpec> started;
  std::vector<std::string> killed;
  Handlers handlers;
};

class FakeJournal : public Journal {
 public:
  void append(const std::vector<Entry>& entries,
              std::function<void(const Status&)> written) override {
    if (full) return written(Error(Code::kIo, "write the journal: No space left on device"));
    for (const Entry& entry : entries) kinds.push_back(entryKindName(entry.kind));
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
  void entry(const Entry&) override {}
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
    connection = std::make_shared<Connection>(Connection::Socket(std::move(socket)));
    if (!key.empty()) connection->encrypt(key, TlsSide::kClient);
    connection->start({.frame =
                           [this](const Frame& frame) {
                             if (frame.type == raw(MessageType::kFolder)) {
                               folder += frame.payload;
                               return;
                             }
                             types.push_back(static_cast<MessageType>(frame.type));
                             last = std::string(frame.payload);
                           },
                       .closed = [this](const std::string&) { closed = true; },
                       .drained = nullptr});
  }
  ~TestAgent() { connection->close(); }
  template <typename Message>
  void send(MessageType type, const Message& message) {
    connection->send(raw(type), encode(message));
  }
  void hello(const std::string& task, int generation = 1, const std::string& secret = "secret") {
    send(MessageType::kHello,
         Hello{.secret = secret, .run = "job.1", .generation = generation, .task = task});
  }
  void print(std::int64_t process, const std::string& text) {
    connection->send(raw(MessageType::kOutput), encodeChunk(process, text));
  }

  std::shared_ptr<Connection> connection;
  std::vector<MessageType> types;
  std::string last;
  std::string folder;
  bool closed = false;
};

class CoordinatorTest : public testing::Test {
 protected:
  void start(int workers, int cores = 0) {
    Job job;
    job.name = "job";
    job.program.command = {"prog"};
    job.workers = {workers, workers};
    Site site;
    site.address = "127.0.0.1";
    site.listen = site.address;
    site.lease = lease;
    site.cores = cores;
    site.names = names;
    for (const Task& task : makeRoster(job, workers).tasks) {
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
    ASSERT_TRUE(coordinator->start([this](Outcome o, const std::string& why) {
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
  bool got(const TestAgent& agent, MessageType type) {
    return std::find(agent.types.begin(), agent.types.end(), type) != agent.types.end();
  }

  asio::io_context loop;
  SystemClock clock;
  FakeBackend backend;
  FakeJournal journal;
  FakeObserver observer;
  std::unique_ptr<Coordinator> coordinator;
  std::optional<Outcome> outcome;
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
  until([&] { return coordinator->gang().phase() == Gang::Phase::kRunning; });
  EXPECT_FALSE(got(first, MessageType::kStart)) << "that it runs is not written yet";
  journal.slow = false;
  std::exchange(journal.waiting, nullptr)({});
  EXPECT_THAT(journal.kinds, ElementsAre("starting", "joined", "joined", "running"));
  until([&] { return got(first, MessageType::kStart) && got(second, MessageType::kStart); });
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
  until([&] { return got(agent, MessageType::kStart); });
  EXPECT_FALSE(agent.closed);
  // All but some hundred, long before their time is over.
  until([&] { return sentAway() >= kStrangers - 130; });
}

TEST_F(CoordinatorTest, AReportThatCannotBeReadIsDroppedAndToldOnce) {
  start(1);
  TestAgent agent(loop, coordinator->port());
  agent.hello("worker-0");
  until([&] { return got(agent, MessageType::kStart); });
  const std::string deep = std::string(1000, '[') + std::string(1000, ']');
  for (const std::string& line : {deep, deep, std::string(R"({"step":1})")}) {
    agent.connection->send(raw(MessageType::kMetric), encodeChunk(0, line + "\n"));
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
  EXPECT_EQ(coordinator->gang().phase(), Gang::Phase::kStarting);
  agent.connection->send(raw(MessageType::kReady), "");
  until([&] { return got(agent, MessageType::kStart); });
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
  until([&] { return got(agent, MessageType::kStart); });
  agent.send(MessageType::kBeat, Beat{});
  until([&] { return got(agent, MessageType::kAlive); });
}

TEST_F(CoordinatorTest, RunsAGangToItsEnd) {
  start(2);
  TestAgent a(loop, coordinator->port());
  TestAgent b(loop, coordinator->port());
  a.hello("worker-0");
  until([&] { return got(a, MessageType::kWelcome); });
  EXPECT_FALSE(got(a, MessageType::kStart)) << "before the gang is complete";
  b.hello("worker-1");
  until([&] { return got(a, MessageType::kStart) && got(b, MessageType::kStart); });
  const auto begin = decode<Start>(b.last);
  ASSERT_TRUE(begin);
  EXPECT_EQ(begin->processes.at(0).env.at("DURE_RANK"), "1");
  a.print(0, "hello\n");
  a.send(MessageType::kExited, Exited{.process = 0});
  b.send(MessageType::kExited, Exited{.process = 0});
  until([&] { return got(a, MessageType::kStop) && got(b, MessageType::kStop); });
  // The last words come after the backend has seen the task go.
  backend.gone("worker-0");
  backend.gone("worker-1");
  a.print(0, "last words\n");
  for (TestAgent* agent : {&a, &b}) {
    agent->connection->send(raw(MessageType::kFinished), "");
    agent->connection->finish();
  }
  until([&] { return outcome.has_value(); });
  EXPECT_EQ(outcome, Outcome::kSucceeded);
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
    EXPECT_THAT(agent.types, ElementsAre(MessageType::kRefused));
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
  until([&] { return got(agent, MessageType::kStart); });
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
  until([&] { return got(agent, MessageType::kStop); });
  EXPECT_FALSE(got(agent, MessageType::kStart));
  backend.gone("worker-0");
  agent.connection->finish();
  until([&] { return outcome.has_value(); });
  EXPECT_EQ(outcome, Outcome::kPlaceFailed);
  EXPECT_THAT(reason, HasSubstr("No space left on device"));
}

TEST_F(CoordinatorTest, ALogThatCannotBeWrittenEndsTheRun) {
  start(1);
  TestAgent agent(loop, coordinator->port());
  agent.hello("worker-0");
  until([&] { return got(agent, MessageType::kStart); });
  observer.full = true;
  agent.print(0, "lost\n");
  until([&] { return got(agent, MessageType::kStop); });
  backend.gone("worker-0");
  agent.connection->finish();
  until([&] { return outcome.has_value(); });
  EXPECT_EQ(outcome, Outcome::kPlaceFailed);
}

TEST_F(CoordinatorTest, MetricsAreHandedOnLineByLine) {
  start(1);
  TestAgent agent(loop, coordinator->port());
  agent.hello("worker-0");
  until([&] { return got(agent, MessageType::kStart); });
  agent.connection->send(raw(MessageType::kMetric), encodeChunk(0, "{\"step\":1}\n{\"step\":2}\n"));
  until([&] { return observer.metrics.size() == 2; });
  EXPECT_THAT(observer.metrics, ElementsAre("0 {\"step\":1}", "0 {\"step\":2}"));
}

TEST_F(CoordinatorTest, ACommandGoesToTheTaskItNamesAndItsOutputComesBack) {
  start(2);
  TestAgent a(loop, coordinator->port());
  TestAgent b(loop, coordinator->port());
  a.hello("worker-0");
  b.hello("worker-1");
  until([&] { return got(a, MessageType::kStart) && got(b, MessageType::kStart); });
  a.send(MessageType::kExec, Exec{.id = 42, .task = "worker-1", .argv = {"orted"}});
  until([&] { return got(b, MessageType::kExec); });
  b.connection->send(raw(MessageType::kExecOutput), encodeChunk(84, "hi\n"));
  b.send(MessageType::kExecExited, ExecExited{.id = 42, .status = {3, 0}});
  until([&] { return got(a, MessageType::kExecOutput) && got(a, MessageType::kExecExited); });
  EXPECT_EQ(decode<ExecExited>(a.last)->status.code, 3);
  a.send(MessageType::kExec, Exec{.id = 43, .task = "worker-9", .argv = {"orted"}});
  until([&] { return a.last.find("no task worker-9") != std::string::npos; });
}

TEST_F(CoordinatorTest, MoreRanksThanCoresAreLetInAsOthersHaveLoaded) {
  start(3, 1);
  std::vector<std::unique_ptr<TestAgent>> agents;
  for (int i = 0; i < 3; ++i) {
    agents.push_back(std::make_unique<TestAgent>(loop, coordinator->port()));
    agents.back()->hello("worker-" + std::to_string(i));
  }
  until([&] { return got(*agents[0], MessageType::kStart); });
  EXPECT_FALSE(got(*agents[1], MessageType::kStart));
  agents[0]->connection->send(raw(MessageType::kLoaded), "");
  until([&] { return got(*agents[1], MessageType::kStart); });
  EXPECT_FALSE(got(*agents[2], MessageType::kStart));
  agents[1]->send(MessageType::kExited, Exited{.process = 0});
  until([&] { return got(*agents[2], MessageType::kStart); });
}

TEST_F(CoordinatorTest, WhyAnAgentCannotStartItsProgramsEndsTheRunInThatSentence) {
  folder = "packed";
  start(1);
  TestAgent agent(loop, coordinator->port());
  agent.hello("worker-0");
  until([&] { return got(agent, MessageType::kWelcome); });
  agent.send(MessageType::kUnable, Unable{"out: No space left on device"});
  agent.connection->send(raw(MessageType::kFinished), "");
  agent.connection->finish();
  until([&] { return coordinator->gang().hasFinished("worker-0"); });
  EXPECT_FALSE(outcome) << "it is still there";
  backend.gone("worker-0");
  until([&] { return outcome.has_value(); });
  EXPECT_EQ(outcome, Outcome::kPlaceFailed);
  EXPECT_EQ(reason, "worker-0 cannot start: out: No space left on device");
}

TEST_F(CoordinatorTest, NobodyStartsBeforeAllKnowTheNamesOfAll) {
  names = true;
  start(2);
  TestAgent a(loop, coordinator->port());
  TestAgent b(loop, coordinator->port());
  a.hello("worker-0");
  b.hello("worker-1");
  until([&] { return got(a, MessageType::kNames) && got(b, MessageType::kNames); });
  const auto asked = decode<Names>(a.last);
  ASSERT_TRUE(asked);
  EXPECT_THAT(asked->names, ElementsAre("worker-0.job-1", "worker-1.job-1"));
  a.connection->send(raw(MessageType::kNamed), "");
  a.print(0, "received");
  until([&] { return !observer.printed.empty(); });
  EXPECT_FALSE(got(a, MessageType::kStart)) << "worker-1 does not know the names yet";
  b.connection->send(raw(MessageType::kNamed), "");
  until([&] { return got(a, MessageType::kStart) && got(b, MessageType::kStart); });
}

TEST_F(CoordinatorTest, AGangThatIsStoppedWhileItIsLetInStartsNoMore) {
  start(2, 1);
  TestAgent a(loop, coordinator->port());
  TestAgent b(loop, coordinator->port());
  a.hello("worker-0");
  b.hello("worker-1");
  until([&] { return got(a, MessageType::kStart); });
  coordinator->stop("interrupted", false);
  a.connection->send(raw(MessageType::kLoaded), "");
  until([&] { return got(b, MessageType::kStop); });
  EXPECT_FALSE(got(b, MessageType::kStart));
}

TEST_F(CoordinatorTest, ATaskThatCannotBeStartedFailsThePlace) {
  backend.refusal = {"worker-0"};
  start(1);
  until([&] { return outcome.has_value(); });
  EXPECT_EQ(outcome, Outcome::kPlaceFailed);
  EXPECT_THAT(reason, HasSubstr("no room"));
}

}  // namespace
}  // namespace dure
