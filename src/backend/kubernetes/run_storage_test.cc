#include "backend/kubernetes/run_storage.h"

#include <stdlib.h>

#include <filesystem>

#include "backend/kubernetes/data_claim.h"
#include "backend/kubernetes/test_jobs.h"
#include "base/files.h"

namespace dure::kubernetes {
namespace {

namespace fs = std::filesystem;

constexpr const char* kNative = "name: train\ntrain: {model: linear, data: {path: reviews.npz}}\n";
constexpr const char* kProgram = "name: train\nprogram: {command: [run], image: mine:1}\n";

std::string mountsIn(const spec::Job& job) {
  std::string text;
  for (const spec::Volume& volume : job.volumes) {
    text += volume.path + "=" + volume.claim + ":" + volume.sub_path +
            (volume.read_only ? " ro" : "") +
            (volume.tasks == spec::VolumeTasks::kChief ? " chief" : "") + "\n";
  }
  return text;
}

TEST(RunStorage, WhatTheJobKeepsIsMountedWhereTheJobHasIt) {
  struct Case {
    const char* job;
    const char* output;  // as the pod has it
    const char* mounts;
  };
  for (const Case& c : {
           Case{"output: out/model.h5\n", "/dure/work/out/model.h5",
                "/dure/work/out=own:output chief\n"},
           Case{"output: out/model.h5\ncheckpoint: out/steps\nworkers: 2\n",
                "/dure/work/out/model.h5",
                "/dure/work/out=own:output chief\nout/steps=own:checkpoints\n"},
           // In place of the workdir nothing is mounted.
           Case{"output: model.h5\n", "/dure-output/model.h5", "/dure-output=own:output chief\n"},
           Case{"output: /model.h5\n", "/dure-output/model.h5", "/dure-output=own:output chief\n"},
           Case{"output: /srv/model.h5\n", "/srv/model.h5", "/srv=own:output chief\n"},
           Case{"checkpoint: /ckpt\n", "", "/ckpt=own:checkpoints\n"},
           // A volume of the job's own does for what is below it.
           Case{"output: out/model.h5\nvolumes: [{path: out, claim: mine}]\n", "out/model.h5",
                "out=mine:\n"},
           Case{"output: out/model.h5\nvolumes: [{path: out, claim: mine, read_only: true}]\n",
                "/dure/work/out/model.h5", "out=mine: ro\n/dure/work/out=own:output chief\n"},
       }) {
    const spec::Job placed = placedInCluster(jobOf(std::string(kProgram) + c.job), "own", {});
    EXPECT_EQ(placed.output, c.output) << c.job;
    EXPECT_EQ(mountsIn(placed), c.mounts) << c.job;
  }
}

TEST(RunStorage, ManyNodesMountItOnlyIfTheyNeedTo) {
  const std::string program = kProgram;
  const auto native = [](const std::string& train) {
    return "train: {model: linear, data: {path: a.npz}" + train + "}\ncheckpoint: c\n";
  };
  for (const auto& [job, mode, data] : {
           std::tuple{native("") + "workers: 1\n", "ReadWriteOnce", "ReadWriteOnce"},
           // The first worker alone writes, and the others hear of it.
           std::tuple{native("") + "workers: 2\n", "ReadWriteOnce", "ReadWriteMany"},
           std::tuple{native(", sync: end") + "workers: 2\n", "ReadWriteMany", "ReadWriteMany"},
           std::tuple{native(", wire: bf16") + "workers: 2\n", "ReadWriteMany", "ReadWriteMany"},
           std::tuple{program + "workers: 2\ncheckpoint: c\n", "ReadWriteMany", "ReadWriteMany"},
           std::tuple{program + "workers: 2\noutput: o/m.h5\n", "ReadWriteOnce", "ReadWriteMany"},
           std::tuple{program + "workers: 2\ncheckpoint: c\n"
                                "kubernetes: {storage: {access: ReadWriteOnce}}\n",
                      "ReadWriteOnce", "ReadWriteOnce"},
       }) {
    EXPECT_EQ(accessModeOf(jobOf(job)), mode) << job;
    EXPECT_EQ(dataAccessModeOf(jobOf(job)), data) << job;
  }
}

class LocalDataTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "data-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    root_ = name;
  }
  void TearDown() override { fs::remove_all(root_); }
  void put(const std::string& name, const std::string& text) {
    ASSERT_TRUE(makeDirectories((root_ / name).parent_path()));
    ASSERT_TRUE(replaceFile(root_ / name, text));
  }
  spec::Job job(const std::string& text) {
    spec::Job job = jobOf(text);
    job.program.workdir = root_;
    return job;
  }
  std::string hashOf(const std::string& name, const char* field = "program.data") {
    const auto content = contentOf({.field = field, .path = name, .here = root_ / name}, 1 << 20);
    EXPECT_TRUE(content) << content.error().message();
    return content->hash;
  }

  fs::path root_;
};

TEST_F(LocalDataTest, IsWhatTheJobReadsAndNoVolumeHas) {
  put("reviews.npz", "x");
  put("data/a", "a");
  auto found = localDataOf(job(kNative));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].field, "train.data.path");
  EXPECT_EQ(found[0].here, root_ / "reviews.npz");
  EXPECT_TRUE(localDataOf(job(std::string(kNative) + "volumes: [{path: reviews.npz, claim: c}]\n"))
                  .empty());
  EXPECT_TRUE(localDataOf(job(std::string(kNative) + "program: {ship: false}\n")).empty());
  // What is not here may be in the image.
  EXPECT_TRUE(localDataOf(job("train: {model: linear, data: {path: /no/such}}\n")).empty());
  found = localDataOf(job("program: {command: [run], image: a, data: [data, missing]}\n"));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].path, "data");
}

TEST_F(LocalDataTest, TheTrainerIsToldWhereItsDataIsAndAProgramFindsItWhereItWas) {
  put("reviews.npz", "x");
  put("data/a", "a");
  const LocalData file{"train.data.path", "reviews.npz", root_ / "reviews.npz"};
  const spec::Job native = placedInCluster(job(kNative), "own", {{file, "claim"}});
  EXPECT_EQ(native.train.data.path, "/dure-data/0/reviews.npz");
  EXPECT_EQ(mountsIn(native), "/dure-data/0=claim:data ro\n");
  const spec::Job program =
      placedInCluster(job(kProgram), "own",
                      {{{"program.data", "data", root_ / "data"}, "one"},
                       {{"program.data", "reviews.npz", root_ / "reviews.npz"}, "two"}});
  EXPECT_EQ(mountsIn(program), "data=one:data ro\nreviews.npz=two:data/reviews.npz ro\n");
}

TEST_F(LocalDataTest, TheSameContentHasTheSameHashWhereverItLies) {
  put("one/a", "a");
  put("one/b/c", "c");
  put("two/a", "a");
  put("two/b/c", "c");
  EXPECT_EQ(hashOf("one"), hashOf("two"));
  put("two/b/c", "d");
  EXPECT_NE(hashOf("one"), hashOf("two")) << "another content";
  put("three/a", "a");
  put("three/b/d", "c");
  EXPECT_NE(hashOf("one"), hashOf("three")) << "another name";
  // Data sets are often made of links to files.
  fs::create_directories(root_ / "linked/b");
  fs::create_symlink(root_ / "one/a", root_ / "linked/a");
  fs::create_symlink(root_ / "one/b/c", root_ / "linked/b/c");
  EXPECT_EQ(hashOf("one"), hashOf("linked"));
  fs::create_symlink(root_ / "one/b", root_ / "linked/d");
  const auto refused = contentOf({"program.data", "linked", root_ / "linked"}, 1 << 20);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::kInvalid);
}

TEST_F(LocalDataTest, TheWordsOfReviewsGoAlong) {
  put("reviews.npz", "x");
  put("other.txt", "x");
  const std::string before = hashOf("reviews.npz", "train.data.path");
  put("word_index.json", "{}");
  EXPECT_NE(hashOf("reviews.npz", "train.data.path"), before);
  EXPECT_EQ(contentOf({"train.data.path", "", root_ / "reviews.npz"}, 100)->files.size(), 2u);
}

TEST_F(LocalDataTest, TooMuchIsNotRead) {
  put("large", std::string(1000, 'x'));
  const auto content = contentOf({"program.data", "large", root_ / "large"}, 999);
  ASSERT_TRUE(content);
  EXPECT_EQ(content->bytes, 1000);
  EXPECT_EQ(content->hash, "");
}

}  // namespace
}  // namespace dure::kubernetes
