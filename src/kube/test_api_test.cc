#include "kube/test_api.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

#include "kube/test_kubelet.h"

namespace dure::kube {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::IsEmpty;

KubeAddress podNamed(const std::string& name) { return {kinds::kPods, "team", name, ""}; }
KubeAddress mapNamed(const std::string& name) { return {kinds::kConfigMaps, "team", name, ""}; }

json object(const std::string& name, const json& labels = json::object()) {
  return {
      {"apiVersion", "v1"}, {"kind", "Thing"}, {"metadata", {{"name", name}, {"labels", labels}}}};
}

// The fake has to be as strict as what it stands for, or tests on it prove nothing.
class FakeApiTest : public testing::Test {
 protected:
  json make(const KubeAddress& address, json content) {
    auto made = client_.create(address, content);
    EXPECT_TRUE(made) << (made ? "" : made.error().message());
    return made ? *made : json();
  }
  json owned(const std::string& name, const json& owner) {
    json content = object(name);
    content["metadata"]["ownerReferences"] = json::array({{{"apiVersion", "v1"},
                                                           {"kind", "Thing"},
                                                           {"name", owner["metadata"]["name"]},
                                                           {"uid", owner["metadata"]["uid"]}}});
    return content;
  }
  std::vector<std::string> listed(const KubeSelector& selector) {
    std::vector<std::string> names;
    const auto all = client_.listAll(podNamed(""), selector);
    EXPECT_TRUE(all) << (all ? "" : all.error().message());
    for (const json& each : *all) {
      names.push_back(each["metadata"]["name"]);
    }
    return names;
  }

  FakeApi api_;
  FakeKubelet kubelet_{api_};
  KubeClient client_{api_.access(), Duration{2'000}};
};

TEST_F(FakeApiTest, WhatIsMadeHasAnIdentityAndIsMadeOnce) {
  const json one = make(mapNamed(""), object("a"));
  EXPECT_NE(one["metadata"]["uid"], "");
  EXPECT_NE(one["metadata"]["resourceVersion"], "");
  EXPECT_NE(one["metadata"]["creationTimestamp"], "");
  EXPECT_EQ(client_.create(mapNamed(""), object("a")).error().code(), Code::kExists);
  json nameless = object("");
  nameless["metadata"] = {{"generateName", "a."}};
  const json two = make(mapNamed(""), nameless), three = make(mapNamed(""), nameless);
  EXPECT_NE(two["metadata"]["name"], three["metadata"]["name"]);
  EXPECT_EQ(client_.create({kinds::kPods, "nowhere", "", ""}, object("a")).error().code(),
            Code::kNotFound);
}

TEST_F(FakeApiTest, ListsComeInPagesOfOneMoment) {
  for (const char* name : {"a", "b", "c", "d", "e"}) make(podNamed(""), object(name));
  api_.setPage(2);
  EXPECT_THAT(listed({}), ElementsAre("a", "b", "c", "d", "e"));
  EXPECT_EQ(api_.count({.verb = "list", .plural = "pods"}), 3);
}

TEST_F(FakeApiTest, SelectorsChooseAsLabelsAndFieldsSay) {
  make(podNamed(""), object("a", {{"job", "x"}, {"part", "task"}}));
  make(podNamed(""), object("b", {{"job", "x"}, {"part", "folder"}}));
  make(podNamed(""), object("c", {{"job", "y"}}));
  kubelet_.run("a", "node-1");
  kubelet_.end("c");
  struct Case {
    KubeSelector selector;
    std::vector<std::string> names;
  };
  for (const Case& c : std::vector<Case>{
           {{.labels = "job=x"}, {"a", "b"}},
           {{.labels = "job=x,part!=folder"}, {"a"}},
           {{.labels = "part!=task"}, {"b", "c"}},
           {{.labels = "part in (task,folder)"}, {"a", "b"}},
           {{.labels = "job notin (x)"}, {"c"}},
           {{.labels = "!part"}, {"c"}},
           {{.labels = "part"}, {"a", "b"}},
           {{.fields = "spec.nodeName=node-1"}, {"a"}},
           {{.fields = "status.phase!=Succeeded,status.phase!=Failed"}, {"a", "b"}}}) {
    EXPECT_EQ(listed(c.selector), c.names) << c.selector.labels << c.selector.fields;
  }
}

TEST_F(FakeApiTest, OldStatesAreNotWrittenBack) {
  json old = make(mapNamed(""), object("a"));
  ASSERT_TRUE(client_.patch(mapNamed("a"), {{"data", {{"k", "1"}}}}));
  old["data"] = {{"k", "2"}};
  EXPECT_EQ(client_.replace(mapNamed("a"), old).error().code(), Code::kConflict);
  old["metadata"].erase("resourceVersion");
  ASSERT_TRUE(client_.replace(mapNamed("a"), old));
  ASSERT_TRUE(client_.patch(mapNamed("a"), {{"immutable", true}}));
  EXPECT_EQ(client_.patch(mapNamed("a"), {{"data", {{"k", "3"}}}}).error().code(), Code::kInvalid);
  EXPECT_TRUE(client_.patch(mapNamed("a"), {{"metadata", {{"labels", {{"l", "1"}}}}}}));
  EXPECT_TRUE(client_.patch(mapNamed("a"), {{{"op", "remove"}, {"path", "/metadata/labels/l"}}},
                            PatchType::kJson));
  EXPECT_EQ(api_.get(mapNamed("a"))["metadata"]["labels"], json::object());
  EXPECT_EQ(api_.get(mapNamed("a"))["data"]["k"], "2");
}

TEST_F(FakeApiTest, TheStatusIsWrittenApart) {
  make(podNamed(""), object("a"));
  ASSERT_TRUE(client_.patch(podNamed("a"), {{"status", {{"phase", "Running"}}}}));
  EXPECT_EQ(api_.get(podNamed("a"))["status"]["phase"], "Pending");
  KubeAddress status = podNamed("a");
  status.part = "status";
  ASSERT_TRUE(client_.patch(status, {{"status", {{"phase", "Running"}}}, {"spec", {{"a", 1}}}}));
  EXPECT_EQ(api_.get(podNamed("a"))["status"]["phase"], "Running");
  EXPECT_FALSE(api_.get(podNamed("a")).contains("spec"));
}

TEST_F(FakeApiTest, WhatIsOwnedGoesWithTheLastOwner) {
  const json one = make(mapNamed(""), object("one")), two = make(mapNamed(""), object("two"));
  json both = owned("both", one);
  both["metadata"]["ownerReferences"].push_back(owned("", two)["metadata"]["ownerReferences"][0]);
  make(mapNamed(""), owned("first", one));
  make(mapNamed(""), owned("second", *client_.get(mapNamed("first"))));
  make(mapNamed(""), both);
  ASSERT_TRUE(client_.remove(mapNamed("one"), {.uid = "another"}).error().code() ==
              Code::kConflict);
  ASSERT_TRUE(client_.remove(mapNamed("one")));
  EXPECT_THAT(api_.names(kinds::kConfigMaps), ElementsAre("both", "two"));
  make(mapNamed(""), owned("orphan", two));
  ASSERT_TRUE(client_.remove(mapNamed("two"), {.propagation = "Orphan"}));
  EXPECT_THAT(api_.names(kinds::kConfigMaps), ElementsAre("orphan"));
}

TEST_F(FakeApiTest, InTheForegroundTheOwnerGoesLast) {
  const json owner = make(mapNamed(""), object("owner"));
  make(podNamed(""), owned("pod", owner));
  kubelet_.run("pod");
  ASSERT_TRUE(client_.remove(mapNamed("owner"), {.propagation = "Foreground"}));
  EXPECT_TRUE(api_.get(mapNamed("owner"))["metadata"].contains("deletionTimestamp"));
  EXPECT_TRUE(api_.get(podNamed("pod"))["metadata"].contains("deletionTimestamp"));
  kubelet_.end("pod");
  EXPECT_FALSE(api_.has(podNamed("pod")));
  EXPECT_FALSE(api_.has(mapNamed("owner")));
}

TEST_F(FakeApiTest, APodGoesWhenItsKubeletHasEndedIt) {
  for (const char* name : {"unbound", "running", "forced", "ended"}) {
    make(podNamed(""), object(name));
  }
  for (const char* name : {"running", "forced", "ended"}) kubelet_.run(name);
  kubelet_.end("ended", 1);
  for (const char* name : {"unbound", "running", "ended"}) {
    ASSERT_TRUE(client_.remove(podNamed(name)));
  }
  ASSERT_TRUE(client_.remove(podNamed("forced"), {.grace_seconds = 0}));
  EXPECT_THAT(api_.names(kinds::kPods), ElementsAre("running"));
  kubelet_.end("running");
  EXPECT_THAT(api_.names(kinds::kPods), IsEmpty());
}

TEST_F(FakeApiTest, AWatchTellsWhatComesAndGoesForItsSelector) {
  std::stop_source stop;
  make(podNamed(""), object("a", {{"job", "x"}}));
  auto version = client_.list(podNamed(""), {}, [](json&&) {});
  ASSERT_TRUE(version);
  std::mutex mutex;
  std::vector<std::string> told;
  auto watching = std::async(std::launch::async, [&] {
    return client_.watchFrom(
        *version, podNamed(""), {.labels = "job=x"},
        [&](WatchEvent event, json&& pod) {
          const std::lock_guard lock(mutex);
          told.push_back(std::string(event == WatchEvent::kAdded      ? "+"
                                     : event == WatchEvent::kModified ? "~"
                                                                      : "-") +
                         pod["metadata"]["name"].get<std::string>());
        },
        stop.get_token());
  });
  make(podNamed(""), object("b", {{"job", "y"}}));
  kubelet_.run("a");
  api_.change(podNamed("b"), [](json& pod) { pod["metadata"]["labels"]["job"] = "x"; });
  api_.change(podNamed("a"), [](json& pod) { pod["metadata"]["labels"]["job"] = "y"; });
  api_.erase(podNamed("b"));
  const auto all = [&] {
    const std::lock_guard lock(mutex);
    return told.size() == 5;
  };
  EXPECT_TRUE(api_.eventually(all));
  api_.cutStreams();
  EXPECT_EQ(watching.get().error().code(), Code::kUnavailable);
  EXPECT_THAT(told, ElementsAre("~a", "~a", "+b", "-a", "-b"));
  api_.forgetVersions();
  std::string old = "1";
  EXPECT_EQ(client_.watchFrom(old, podNamed(""), {}, [](WatchEvent, json&&) {}, {}).error().code(),
            Code::kNotFound);
}

TEST_F(FakeApiTest, TroubleComesToThoseThatAreMeantAndPasses) {
  api_.answer({.verb = "create", .plural = "configmaps", .name = "a-*"}, 500);
  api_.loseReply({.verb = "create", .name = "b"});
  api_.hangUp({.verb = "create", .name = "c"});
  const auto code = [&](const char* name) {
    const auto made = client_.create(mapNamed(""), object(name));
    return made ? std::optional<Code>() : made.error().code();
  };
  EXPECT_EQ(code("other"), std::nullopt);
  for (const char* name : {"a-1", "b", "c"}) EXPECT_EQ(code(name), Code::kUnavailable) << name;
  EXPECT_THAT(api_.names(kinds::kConfigMaps), ElementsAre("b", "other"));
  EXPECT_EQ(code("a-1"), std::nullopt);
}

TEST_F(FakeApiTest, WhatIsForbiddenIsSaidToBe) {
  api_.forbid({.verb = "list", .plural = "nodes"});
  EXPECT_FALSE(*client_.isAllowed("list", {kinds::kNodes}));
  EXPECT_TRUE(*client_.isAllowed("list", podNamed("")));
  EXPECT_EQ(client_.listAll({kinds::kNodes}).error().code(), Code::kDenied);
}

TEST_F(FakeApiTest, ALogIsFollowedUntilThePodEnds) {
  make(podNamed(""), object("a"));
  kubelet_.run("a");
  api_.appendLog("team", "a", "one\n");
  std::mutex mutex;
  std::string read;
  auto reading = std::async(std::launch::async, [&] {
    return client_.logs("team", "a", {.follow = true}, [&](std::string_view bytes) {
      const std::lock_guard lock(mutex);
      read += bytes;
      return true;
    });
  });
  EXPECT_TRUE(api_.eventually([&] {
    const std::lock_guard lock(mutex);
    return read == "one\n";
  }));
  api_.appendLog("team", "a", "two\n");
  kubelet_.end("a");
  EXPECT_TRUE(reading.get());
  EXPECT_EQ(read, "one\ntwo\n");
}

}  // namespace
}  // namespace dure::kube
