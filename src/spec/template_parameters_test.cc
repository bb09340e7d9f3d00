#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "spec/load.h"
#include "spec/print.h"
#include "spec/test_jobs.h"

namespace dure::spec {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

const std::string kTemplate = R"(script: keras_mnist.py
name: tf-learning
worker_replicas: 2
port: 5000
model_checkpoint_dir: /pvcmnt
checkpoint_pvc_name: pvc-demo
image: registry.example/mnist:1
deploy: True
create_pvc_checkpoint: False
create_volume_inspector: False
)";

const std::string kSameJob = R"(name: tf-learning
strategy: tensorflow
workers: 2
port: 5000
program: {command: [python3, keras_mnist.py], image: "registry.example/mnist:1"}
checkpoint: {path: /pvcmnt, claim: pvc-demo}
)";

TEST(TemplateParametersTest, AreAnotherWayToWriteAJob) {
  const Job job = jobOf(kTemplate);
  EXPECT_EQ(job, jobOf(kSameJob));
  // What is kept of a run is an ordinary job.
  EXPECT_EQ(jobOf(printJob(job)), job);
  EXPECT_THAT(printJob(job), testing::Not(testing::HasSubstr("script")));
}

TEST(TemplateParametersTest, TheClaimIsAVolumeOfTheChief) {
  const std::vector<Volume> volumes = allVolumes(jobOf(kTemplate));
  EXPECT_THAT(volumes, ElementsAre(Volume{
                           .path = "/pvcmnt", .claim = "pvc-demo", .tasks = VolumeTasks::kChief}));
}

TEST(TemplateParametersTest, CanBeReplacedOnTheCommandLine) {
  const std::vector<std::pair<Override, Override>> pairs{
      {set("script", "other.py"), set("program.command", "[python3, other.py]")},
      {set("worker_replicas", "3"), set("workers", "3")},
      {set("image", "b"), set("program.image", "b")},
      {set("model_checkpoint_dir", "/x"), set("checkpoint.path", "/x")},
      {set("checkpoint_pvc_name", "x"), set("checkpoint", "{path: /pvcmnt, claim: x}")},
      {set("deploy", "false"), set("render.deploy", "false")},
      {set("create_pvc_checkpoint", "true"), set("render", "{claim: true, deploy: true}")},
  };
  for (const auto& [a, b] : pairs) {
    Job job = jobOf(kTemplate, {a, set("strategy", "tensorflow")});
    EXPECT_EQ(job, jobOf(kTemplate, {b, set("strategy", "tensorflow")})) << a.path;
    EXPECT_FALSE(job == jobOf(kTemplate)) << a.path;
  }
}

TEST(TemplateParametersTest, AStrategyOrATrainingOfOnesOwnComesFirst) {
  EXPECT_EQ(jobOf("script: a.py\nstrategy: torch\n").strategy, Strategy::kTorch);
  EXPECT_EQ(jobOf(kTemplate, {set("script", "b.py")}).strategy, Strategy::kTensorflow);
  EXPECT_EQ(jobOf("program: {command: [a]}\n").strategy, Strategy::kPlain);
  EXPECT_EQ(jobOf("train: {model: mlp, data: /d}\nworker_replicas: 2\n").strategy,
            Strategy::kNative);
}

TEST(TemplateParametersTest, AnInspectorAloneNeedsNoDeployFalse) {
  const std::string looking =
      "script: a.py\nmodel_checkpoint_dir: /p\ncheckpoint_pvc_name: c\n"
      "create_volume_inspector: true\n";
  EXPECT_FALSE(jobOf(looking).render.deploy);
  EXPECT_TRUE(jobOf("script: a.py\n").render.deploy);
}

TEST(TemplateParametersTest, ContradictionsAreOneSentence) {
  const std::vector<std::pair<std::string, std::string>> mistakes{
      {"script: a.py\nprogram: {command: [b]}\n",
       "job.yaml:1:1: script: says something else than program.command"},
      {"script: a.py\nworker_replicas: 2\nworkers: 3\n",
       "job.yaml:2:1: worker_replicas: says something else than workers"},
      {"script: a.py\nimage: a\nprogram: {image: b}\n",
       "job.yaml:2:1: image: says something else than program.image"},
      {"script: [a.py]\n", "job.yaml:1:9: script[1]: must be a text, got a list"},
      {"script:\n", "job.yaml:1:1: script: has no value"},
      {"script: a.py\nimage: [a]\n", "job.yaml:2:8: image: must be a text, got a list"},
      {"script: a.py\nworker_replicas: 0\n",
       "job.yaml:2:18: worker_replicas: must be 1 or more, got 0"},
      {"script: a.py\ndeploy: 1\n", "job.yaml:2:9: deploy: must be true or false, got 1"},
      {"script: a.py\ncheckpoint_pvc_name: a\n",
       "job.yaml:2:1: checkpoint.path: is missing; it says where the claim is mounted"},
      {"script: a.py\nmodel_checkpoint_dir: /a\ncheckpoint_pvc_name: A\n",
       "job.yaml:3:22: checkpoint_pvc_name: must be a name in Kubernetes: lower-case letters, "
       "digits, '-' and '.', got \"A\""},
      {"script: a.py\nmodel_checkpoint_dir: a/../b\ncheckpoint_pvc_name: a\n",
       "job.yaml:2:1: model_checkpoint_dir: a claim is mounted there, so it must be without '..' "
       "and ':'"},
      {"script: a.py\ncreate_pvc_checkpoint: true\n",
       "job.yaml:2:1: create_pvc_checkpoint: needs checkpoint.claim (checkpoint_pvc_name), the "
       "claim it is for"},
      {"script: a.py\nmodel_checkpoint_dir: /a\ncheckpoint_pvc_name: a\nvolumes: [{path: /a, "
       "claim: b}]\n",
       "job.yaml:4:12: volumes[0].path: /a is the path of another volume, too"},
      {"script: a.py\nmodel_checkpoint_dir: /a\ncheckpoint_pvc_name: a\ndeploy: "
       "true\ncreate_volume_inspector: true\n",
       "job.yaml:5:1: create_volume_inspector: cannot be combined with deploy: the volume "
       "mounts read-write on one node only; look at it when the training is over"},
  };
  for (const auto& [text, problem] : mistakes) {
    EXPECT_THAT(problemsOf(text), ElementsAre(problem)) << text;
  }
}

}  // namespace
}  // namespace dure::spec
