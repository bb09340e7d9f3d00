#include "backend/kubernetes/cluster_volume.h"

#include <filesystem>

#include "backend/kubernetes/test_cluster.h"
#include "base/files.h"

namespace dure::kubernetes {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;

class ClusterVolumeTest : public ClusterTest {
 protected:
  ClusterVolumeTest() {
    std::string name = testing::TempDir() + "/claimXXXXXX";
    if (mkdtemp(name.data()) != nullptr) directory_ = name;
  }
  ~ClusterVolumeTest() override { fs::remove_all(directory_); }

  std::string root(const std::string& run) const { return directory_ + "/" + run; }
  json serve(const std::string& run, const std::vector<std::string>& words) {
    auto answer = serveVolume(root(run), words);
    EXPECT_TRUE(answer) << answer.error().message();
    return answer ? *answer : json();
  }
  // The step has succeeded, with this output.
  std::string makes(const std::string& run, const std::string& step, const std::string& text) {
    serve(run, {"prepare", step});
    EXPECT_TRUE(replaceFile(root(run) + "/work/" + step + "/out/file", text));
    return serve(run, {"publish", step})["digest"];
  }
  Status takeCharge(const std::string& storage_class = "", bool named = false) {
    spec::Job like;
    like.kubernetes.storage.storage_class = storage_class;
    const runs::RunStore store(directory_);
    return ClusterVolume(client_,
                         {.context = "c", .name_space = "team", .claim = "shared", .folder = "a"},
                         like, store, {.name = "imdb", .number = 1}, false)
        .takeCharge(named);
  }

  std::string directory_;
};

TEST_F(ClusterVolumeTest, WhatAPodDoesOnAClaim) {
  EXPECT_EQ(serve("a", {"has", "copy"})["there"], false);
  const std::string digest = makes("a", "copy", "data");
  EXPECT_EQ(serve("a", {"has", "copy"})["there"], true);
  const json files = serve("a", {"list"})["files"];
  ASSERT_EQ(files.size(), 1u);
  EXPECT_EQ(files[0]["path"], "copy/file");
  EXPECT_EQ(files[0]["bytes"], 4);

  EXPECT_EQ(serve("b", {"take-over", root("a"), "copy", "copy", "other"})["taken"], false);
  EXPECT_EQ(serve("b", {"take-over", root("a"), "copy", "copy", digest})["taken"], true);
  EXPECT_EQ(*readFile(root("b") + "/volume/copy/file", 10), "data");

  EXPECT_EQ(serve("a", {"remove"})["others"], true);
  EXPECT_FALSE(fileExists(root("a")));
  EXPECT_EQ(*readFile(root("b") + "/volume/copy/file", 10), "data") << "what was taken over stays";
  EXPECT_EQ(serve("b", {"remove"})["others"], false);
}

TEST_F(ClusterVolumeTest, WhatItDoesNotKnowIsRefused) {
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{}, {"publish"}, {"list", "x"}, {"format"}}) {
    EXPECT_FALSE(serveVolume(root("a"), words));
  }
}

TEST_F(ClusterVolumeTest, TheClaimIsMadeOnce) {
  const kube::KubeAddress claim = at(kube::kinds::kClaims, "shared");
  const auto none = takeCharge();
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error().message(), HasSubstr("no default storage class"));
  EXPECT_THAT(takeCharge("fast").error().message(), HasSubstr("no storage class fast"));
  EXPECT_THAT(takeCharge("", true).error().message(), HasSubstr("there is no claim shared"));
  EXPECT_FALSE(api_.has(claim));
  api_.put({kube::kinds::kStorageClasses, "", "fast", ""}, {});
  ASSERT_TRUE(takeCharge("fast"));
  EXPECT_EQ(api_.get(claim)["spec"]["storageClassName"], "fast");
  EXPECT_EQ(api_.get(claim)["spec"]["accessModes"], json::array({"ReadWriteMany"}));
  ASSERT_TRUE(takeCharge("fast", true));
  EXPECT_EQ(api_.count({.verb = "create", .plural = "persistentvolumeclaims"}), 1);
}

TEST_F(ClusterVolumeTest, APodThatAKilledProcessLeftIsRemovedAndNoOther) {
  api_.put({kube::kinds::kStorageClasses, "", "fast", ""}, {});
  for (const auto& [name, folder] : {std::pair{"old", "a"}, {"other", "b"}}) {
    api_.put(podAt(name), {{"metadata", {{"labels", {{"dure/pipeline", folder}}}}}});
  }
  ASSERT_TRUE(takeCharge("fast"));
  EXPECT_FALSE(api_.has(podAt("old")));
  EXPECT_TRUE(api_.has(podAt("other")));
}

TEST_F(ClusterVolumeTest, WhereARunIsStandsInItsRecord) {
  const runs::RunPaths record{directory_};
  EXPECT_FALSE(*readPlace(record)) << "a run of this machine";
  const ClusterPlace place{.context = "c", .name_space = "team", .claim = "v", .folder = "imdb-1"};
  ASSERT_TRUE(replaceFile(record.cluster(), toJson(place).dump()));
  const auto read = readPlace(record);
  ASSERT_TRUE(read && *read);
  EXPECT_EQ((*read)->root(), place.root());
  EXPECT_EQ(place.jobOf("train-3"), "imdb-1-train-3");
  EXPECT_LE(place.jobOf(std::string(60, 'x')).size(), 40u);
  for (const char* damaged : {"", "{", "[]", R"({"context": 1})", R"({"context": "c"})"}) {
    ASSERT_TRUE(replaceFile(record.cluster(), damaged));
    EXPECT_FALSE(readPlace(record)) << damaged;
  }
}

}  // namespace
}  // namespace dure::kubernetes
