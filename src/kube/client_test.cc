#include "kube/client.h"

#include <gmock/gmock.h>

#include <atomic>
#include <condition_variable>

#include "kube/test_server.h"

namespace dure::kube {
namespace {

using nlohmann::json;
using std::chrono::steady_clock;
using testing::ElementsAre;
using testing::HasSubstr;

KubeAddress pods(const std::string& name = "") { return {kinds::kPods, "a", name}; }

KubeAccess accessTo(const TestServer& server) {
  return {.context = "test", .server = server.url(), .token = "secret"};
}

std::string refusal(int code, const std::string& reason, const std::string& message) {
  return json{{"kind", "Status"}, {"code", code}, {"reason", reason}, {"message", message}}.dump();
}

TEST(KubeAddressTest, NamesObjectsAsTheServerDoes) {
  EXPECT_EQ(pods().path(), "/api/v1/namespaces/a/pods");
  EXPECT_EQ(pods("b").path(), "/api/v1/namespaces/a/pods/b");
  EXPECT_EQ((KubeAddress{kinds::kPods, "a", "b", "log"}).path(), "/api/v1/namespaces/a/pods/b/log");
  EXPECT_EQ((KubeAddress{kinds::kPods, "", ""}).path(), "/api/v1/pods");
  EXPECT_EQ((KubeAddress{kinds::kJobs, "a", "b"}).path(), "/apis/batch/v1/namespaces/a/jobs/b");
  EXPECT_EQ((KubeAddress{kinds::kNodes, "ignored", "n"}).path(), "/api/v1/nodes/n");
  EXPECT_EQ(pods("../../secrets").path(), "/api/v1/namespaces/a/pods/..%2F..%2Fsecrets");
}

TEST(KubeClientTest, AsksWithTheTokenAndReadsTheObject) {
  TestServer server([](const auto&, const auto& send) {
    send(TestServer::answer(200, R"({"metadata": {"name": "b"}})"));
    return true;
  });
  KubeClient client(accessTo(server));
  const auto got = client.get(pods("b"));
  ASSERT_TRUE(got) << got.error().message();
  EXPECT_EQ((*got)["metadata"]["name"], "b");
  EXPECT_EQ(server.asked()[0].target, "/api/v1/namespaces/a/pods/b");
  EXPECT_THAT(server.asked()[0].headers, HasSubstr("Authorization: Bearer secret"));
}

TEST(KubeClientTest, SaysWhatKindOfRefusalItWas) {
  struct Case {
    int status;
    const char* reason;
    Code code;
  };
  for (const Case& c :
       {Case{404, "NotFound", Code::kNotFound}, Case{403, "Forbidden", Code::kDenied},
        Case{401, "Unauthorized", Code::kDenied}, Case{409, "AlreadyExists", Code::kExists},
        Case{409, "Conflict", Code::kConflict}, Case{422, "Invalid", Code::kInvalid}}) {
    TestServer server([&](const auto&, const auto& send) {
      send(TestServer::answer(c.status, refusal(c.status, c.reason, "in its own words")));
      return true;
    });
    KubeClient client(accessTo(server));
    const auto made = client.create(pods(), {{"kind", "Pod"}});
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().code(), c.code) << c.reason;
    EXPECT_THAT(made.error().message(), HasSubstr("in its own words"));
    EXPECT_EQ(server.asked().size(), 1u);
  }
}

TEST(KubeClientTest, TriesAgainWhatMayBeSentTwice) {
  std::atomic<int> count = 0;
  TestServer server([&](const auto&, const auto& send) {
    const int number = count++;
    if (number == 0) return false;  // hangs up
    if (number == 1) {
      send(TestServer::answer(503, "no"));
      return true;
    }
    send(TestServer::answer(200, "{}"));
    return true;
  });
  KubeClient client(accessTo(server));
  EXPECT_TRUE(client.get(pods("b")));
  EXPECT_EQ(count, 3);
}

TEST(KubeClientTest, DoesNotCreateTwice) {
  TestServer server([&](const auto&, const auto&) { return false; });
  KubeClient client(accessTo(server));
  const auto made = client.create(pods(), {{"kind", "Pod"}});
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code(), Code::kUnavailable);
  EXPECT_EQ(server.asked().size(), 1u);
}

// The server may have created it before the connection broke.
TEST(KubeClientTest, DoesNotCreateTwiceOverAConnectionThatWasKept) {
  TestServer server([&](const auto& asked, const auto& send) {
    if (asked.method == "POST") return false;
    send(TestServer::answer(200, "{}"));
    return true;
  });
  KubeClient client(accessTo(server));
  ASSERT_TRUE(client.get(pods("b")));
  const auto made = client.create(pods(), {{"kind", "Pod"}});
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code(), Code::kUnavailable);
  EXPECT_THAT(made.error().message(), HasSubstr("the connection broke"));
  EXPECT_EQ(server.asked().size(), 2u);
}

TEST(KubeClientTest, WaitsAsLongAsTheServerAsksFor) {
  std::atomic<int> count = 0;
  TestServer server([&](const auto&, const auto& send) {
    send(count++ == 0 ? TestServer::answer(429, "slow down", "Retry-After: 1\r\n")
                      : TestServer::answer(201, "{}"));
    return true;
  });
  KubeClient client(accessTo(server));
  const auto began = steady_clock::now();
  EXPECT_TRUE(client.create(pods(), {{"kind", "Pod"}}));
  EXPECT_GE(steady_clock::now() - began, std::chrono::milliseconds(990));
}

TEST(KubeClientTest, GivesUpWhenItsPatienceIsOver) {
  TestServer server([&](const auto&, const auto&) { return false; });
  KubeClient client(accessTo(server), Duration{600});
  const auto began = steady_clock::now();
  const auto got = client.get(pods("b"));
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code(), Code::kUnavailable);
  EXPECT_LT(steady_clock::now() - began, std::chrono::seconds(2));
  EXPECT_GT(server.asked().size(), 1u);
}

TEST(KubeClientTest, AServerThatIsNotThereIsSaidInOneSentence) {
  KubeClient client({.server = "http://127.0.0.1:1"}, Duration{200});
  const auto got = client.get(pods("b"));
  ASSERT_FALSE(got);
  EXPECT_THAT(got.error().message(), HasSubstr("cannot reach the cluster at 127.0.0.1:1"));
}

TEST(KubeClientTest, ListsPageAfterPage) {
  TestServer server([&](const auto& asked, const auto& send) {
    const bool second = asked.target.find("continue=next") != std::string::npos;
    send(TestServer::answer(
        200, second ? R"({"metadata": {"resourceVersion": "7"}, "items": [{"n": 3}]})"
                    : R"({"metadata": {"continue": "next"}, "items": [{"n": 1}, {"n": 2}]})"));
    return true;
  });
  KubeClient client(accessTo(server));
  std::vector<int> seen;
  const auto version = client.list(pods(), {.labels = "app=x,tier in (a)"},
                                   [&](json&& object) { seen.push_back(object["n"]); });
  ASSERT_TRUE(version);
  EXPECT_EQ(*version, "7");
  EXPECT_THAT(seen, ElementsAre(1, 2, 3));
  EXPECT_THAT(server.asked()[0].target, HasSubstr("labelSelector=app%3Dx%2Ctier%20in%20%28a%29"));
}

std::string event(const std::string& type, int number) {
  return json{{"type", type},
              {"object",
               {{"metadata",
                 {{"name", std::to_string(number)}, {"resourceVersion", std::to_string(number)}}}}}}
             .dump() +
         "\n";
}

constexpr const char* kStreaming = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n";

// What a watcher has been told, in order: "= 1 2", "+ 3", "- 3".
class Told {
 public:
  void add(const std::string& line) {
    const std::lock_guard lock(mutex_);
    lines_.push_back(line);
    changed_.notify_all();
  }
  std::vector<std::string> waitFor(std::size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(10), [&] { return lines_.size() >= count; });
    return lines_;
  }
  KubeWatch watch() {
    return {.address = pods(),
            .replaced =
                [this](std::vector<json>&& all) {
                  std::string line = "=";
                  for (const json& object : all)
                    line += " " + object["metadata"]["name"].get<std::string>();
                  add(line);
                },
            .changed =
                [this](WatchEvent event, json&& object) {
                  add((event == WatchEvent::kAdded      ? "+ "
                       : event == WatchEvent::kModified ? "~ "
                                                        : "- ") +
                      object["metadata"]["name"].get<std::string>());
                },
            .trouble =
                [this](const std::optional<Error>& error) { add(error ? "trouble" : "better"); }};
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> lines_;
};

TEST(KeepWatchingTest, GoesOnFromTheLastVersionAfterAnInterruption) {
  std::atomic<int> watches = 0;
  TestServer server([&](const auto& asked, const auto& send) {
    if (asked.target.find("watch=true") == std::string::npos) {
      send(TestServer::answer(
          200,
          R"({"metadata": {"resourceVersion": "5"}, "items": [{"metadata": {"name": "1"}}]})"));
      return true;
    }
    const int number = watches++;
    send(kStreaming);
    if (number == 0) {
      send(event("ADDED", 6));
      // A line may come in pieces, and bookmarks move the version on.
      const std::string next = event("MODIFIED", 7);
      send(next.substr(0, 10));
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      send(next.substr(10) + event("BOOKMARK", 9));
      return false;
    }
    if (number == 1) send(event("DELETED", 10));
    if (number >= 1) std::this_thread::sleep_for(std::chrono::milliseconds(300));
    return false;
  });
  KubeClient client(accessTo(server));
  Told told;
  std::jthread watching(
      [&](const std::stop_token& stop) { keepWatching(client, told.watch(), stop); });
  EXPECT_THAT(told.waitFor(4), ElementsAre("= 1", "+ 6", "~ 7", "- 10"));
  watching.request_stop();
  watching.join();
  const auto asked = server.asked();
  ASSERT_GE(asked.size(), 3u);
  EXPECT_THAT(asked[1].target, HasSubstr("resourceVersion=5"));
  EXPECT_THAT(asked[2].target, HasSubstr("resourceVersion=9"));
}

TEST(KeepWatchingTest, ListsAgainWhenTheServerHasForgotten) {
  std::atomic<int> lists = 0, watches = 0;
  TestServer server([&](const auto& asked, const auto& send) {
    if (asked.target.find("watch=true") == std::string::npos) {
      const std::string name = std::to_string(++lists);
      send(TestServer::answer(
          200, R"({"metadata": {"resourceVersion": "5"}, "items": [{"metadata": {"name": ")" +
                   name + "\"}}]}"));
      return true;
    }
    const int number = watches++;
    if (number == 0) {
      send(kStreaming);
      send(json{{"type", "ERROR"},
                {"object", {{"code", 410}, {"reason", "Expired"}, {"message", "too old"}}}}
               .dump() +
           "\n");
    } else if (number == 1) {
      send(TestServer::answer(410, refusal(410, "Expired", "too old")));
    } else {
      send(kStreaming);
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
    }
    return false;
  });
  KubeClient client(accessTo(server));
  Told told;
  std::jthread watching(
      [&](const std::stop_token& stop) { keepWatching(client, told.watch(), stop); });
  EXPECT_THAT(told.waitFor(7),
              ElementsAre("= 1", "trouble", "= 2", "better", "trouble", "= 3", "better"));
}

TEST(KeepWatchingTest, EndsSoonWhenAsked) {
  TestServer server([&](const auto& asked, const auto& send) {
    if (asked.target.find("watch=true") == std::string::npos) {
      send(TestServer::answer(200, R"({"metadata": {"resourceVersion": "5"}, "items": []})"));
      return true;
    }
    send(kStreaming);
    std::this_thread::sleep_for(std::chrono::seconds(3));
    return false;
  });
  KubeClient client(accessTo(server));
  Told told;
  std::jthread watching(
      [&](const std::stop_token& stop) { keepWatching(client, told.watch(), stop); });
  told.waitFor(1);
  const auto began = steady_clock::now();
  watching.request_stop();
  watching.join();
  EXPECT_LT(steady_clock::now() - began, std::chrono::seconds(2));
}

TEST(KubeClientTest, ReadsLogsAsTheyCome) {
  TestServer server([&](const auto&, const auto& send) {
    send(std::string(kStreaming) + "one\n");
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    send("two\n");
    return false;
  });
  KubeClient client(accessTo(server));
  std::string all;
  EXPECT_TRUE(client.logs("a", "b", {.container = "main", .follow = true, .tail = 5},
                          [&](std::string_view bytes) {
                            all += bytes;
                            return true;
                          }));
  EXPECT_EQ(all, "one\ntwo\n");
  EXPECT_EQ(server.asked()[0].target,
            "/api/v1/namespaces/a/pods/b/log?container=main&follow=true&tailLines=5");
}

}  // namespace
}  // namespace dure::kube
