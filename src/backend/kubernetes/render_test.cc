#include "backend/kubernetes/render.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/kubernetes/test_jobs.h"
#include "spec/load.h"

namespace dure::kubernetes {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

const std::string kTemplate = R"(script: train.py
name: mnist
worker_replicas: 2
port: 5000
model_checkpoint_dir: /ckpt
checkpoint_pvc_name: models
image: registry.example/mnist:1
)";

std::vector<json> render(const std::string& text) {
  const auto objects = renderJob(jobOf(text), "trainer:1");
  EXPECT_TRUE(objects) << (objects ? "" : objects.error().message());
  return objects ? *objects : std::vector<json>{};
}

std::string refusalOf(const std::string& text) {
  const auto objects = renderJob(jobOf(text), "trainer:1");
  EXPECT_FALSE(objects) << text;
  return objects ? "" : objects.error().message();
}

std::vector<std::string> namesOf(const std::vector<json>& objects) {
  std::vector<std::string> names;
  for (const json& object : objects) {
    names.push_back(object["kind"].get<std::string>() + "/" +
                    object["metadata"]["name"].get<std::string>());
  }
  return names;
}

json podOf(const std::vector<json>& objects, const std::string& name) {
  for (const json& object : objects) {
    if (object["kind"] == "Job" && object["metadata"]["name"] == name) {
      return object["spec"]["template"]["spec"];
    }
  }
  ADD_FAILURE() << "there is no job " << name;
  return {};
}

std::string variable(const json& pod, const std::string& name) {
  for (const json& entry : pod["containers"][0]["env"]) {
    if (entry["name"] == name) return entry["value"];
  }
  return "";
}

TEST(RenderTest, EveryTaskIsAJobWithAService) {
  const std::vector<json> objects = render(kTemplate);
  EXPECT_THAT(namesOf(objects), ElementsAre("Service/mnist-worker-0", "Service/mnist-worker-1",
                                            "Job/mnist-worker-0", "Job/mnist-worker-1"));
  const json& service = objects[1];
  EXPECT_EQ(service["spec"]["ports"][0]["port"], 5000);
  const json& job = objects[3];
  EXPECT_EQ(job["spec"]["backoffLimit"], 3);
  for (const auto& [key, value] : service["spec"]["selector"].items()) {
    EXPECT_EQ(job["spec"]["template"]["metadata"]["labels"][key], value);
  }
  const json pod = podOf(objects, "mnist-worker-1");
  EXPECT_EQ(pod["hostname"], "mnist-worker-1");
  EXPECT_EQ(pod["containers"][0]["command"], json({"python3", "train.py"}));
  EXPECT_EQ(pod["containers"][0]["image"], "registry.example/mnist:1");
  EXPECT_FALSE(pod["containers"][0].contains("workingDir"));
  EXPECT_EQ(pod["automountServiceAccountToken"], false);
  EXPECT_EQ(pod["securityContext"]["runAsUser"], 1000);
}

TEST(RenderTest, RanksFindEachOtherByTheirServices) {
  const std::vector<json> objects = render(kTemplate);
  for (int i = 0; i < 2; ++i) {
    const json config =
        json::parse(variable(podOf(objects, "mnist-worker-" + std::to_string(i)), "TF_CONFIG"));
    EXPECT_EQ(config["cluster"]["worker"], json({"mnist-worker-0:5000", "mnist-worker-1:5000"}));
    EXPECT_EQ(config["task"], json({{"type", "worker"}, {"index", i}}));
  }
  const json torch = podOf(render("strategy: torch\nworkers: 2\nname: t\nprogram: {command: [a], "
                                  "image: i}\n"),
                           "t-worker-1");
  EXPECT_EQ(variable(torch, "MASTER_ADDR"), "t-worker-0");
  EXPECT_EQ(variable(torch, "RANK"), "1");
}

TEST(RenderTest, TheChiefAloneHasTheClaim) {
  const std::vector<json> objects = render(kTemplate);
  EXPECT_THAT(podOf(objects, "mnist-worker-0")["containers"][0]["volumeMounts"].dump(),
              HasSubstr("/ckpt"));
  EXPECT_THAT(podOf(objects, "mnist-worker-1").dump(),
              testing::Not(HasSubstr("persistentVolumeClaim")));
  const std::vector<json> roles = render(
      "strategy: tensorflow\nname: r\nroles: {chief: 1, ps: 1, evaluator: 1}\nprogram: {command: "
      "[a], image: i}\ncheckpoint: {path: /c, claim: c}\n");
  EXPECT_THAT(namesOf(roles), testing::Contains("Job/r-evaluator-0"));
  EXPECT_THAT(podOf(roles, "r-chief-0").dump(), HasSubstr("persistentVolumeClaim"));
  EXPECT_THAT(podOf(roles, "r-worker-0").dump(), testing::Not(HasSubstr("persistentVolumeClaim")));
}

TEST(RenderTest, ClaimAndInspectorComeOnRequest) {
  const std::vector<json> claim =
      render(kTemplate + "deploy: false\ncreate_pvc_checkpoint: true\n");
  EXPECT_THAT(namesOf(claim), ElementsAre("PersistentVolumeClaim/models"));
  EXPECT_EQ(claim[0]["spec"]["accessModes"], json({"ReadWriteOnce"}));
  const std::vector<json> look = render(kTemplate + "create_volume_inspector: true\n");
  ASSERT_THAT(namesOf(look), ElementsAre("Pod/mnist-inspector"));
  EXPECT_EQ(look[0]["spec"]["containers"][0]["volumeMounts"][0]["mountPath"], "/ckpt");
  EXPECT_EQ(look[0]["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"], "models");
  EXPECT_EQ(look[0]["spec"]["securityContext"]["runAsUser"], 1000);
}

TEST(RenderTest, NativeJobsTakeTheirSettingsAlong) {
  const std::vector<json> objects = render(
      "name: n\nworkers: 2\ntrain: {model: mlp, data: /d}\noutput: out/m.h5\nvolumes: [{path: out, "
      "claim: c}]\n");
  EXPECT_EQ(namesOf(objects).front(), "ConfigMap/n-job");
  EXPECT_THAT(objects[0]["data"]["job.yaml"].get<std::string>(),
              testing::AllOf(HasSubstr("model: mlp"), testing::Not(HasSubstr("/jobs"))));
  const json pod = podOf(objects, "n-worker-1");
  const json& container = pod["containers"][0];
  EXPECT_EQ(container["image"], "trainer:1");
  EXPECT_EQ(container["command"], json({"dure-trainer"}));
  EXPECT_EQ(container["workingDir"], "/dure/worker-1");
  EXPECT_EQ(variable(pod, "DURE_OUTPUT"), "/dure/worker-1/out/m.h5");
  EXPECT_EQ(variable(pod, "DURE_TASK_DIR"), "/dure/worker-1");
  EXPECT_THAT(container["volumeMounts"].dump(),
              testing::AllOf(HasSubstr("\"/dure/worker-1/job.yaml\""),
                             HasSubstr("\"/dure/worker-1/out\"")));
}

TEST(RenderTest, TimesAndGpusGoToKubernetes) {
  const std::vector<json> objects = render(
      "name: g\nprocesses: 1\nresources: {gpus: 2}\ndeadline: 1500ms\nttl: 1h\nrestarts: "
      "0\nprogram: "
      "{command: [a], image: i, pull: Never}\n");
  const json& spec = objects[1]["spec"];
  EXPECT_EQ(spec["activeDeadlineSeconds"], 2);
  EXPECT_EQ(spec["ttlSecondsAfterFinished"], 3600);
  EXPECT_EQ(spec["backoffLimit"], 0);
  const json& container = spec["template"]["spec"]["containers"][0];
  EXPECT_EQ(container["resources"]["limits"]["nvidia.com/gpu"], "2");
  EXPECT_EQ(container["imagePullPolicy"], "Never");
}

TEST(RenderTest, SaysWhatNeedsMoreThanManifests) {
  const std::string program = "program: {command: [a], image: i}\n";
  EXPECT_THAT(refusalOf(program + "strategy: mpi\n"), HasSubstr("dure run --on kubernetes"));
  EXPECT_THAT(refusalOf(program + "strategy: horovod\n"), HasSubstr("horovod jobs"));
  EXPECT_THAT(refusalOf(program + "gpus: 2\n"), HasSubstr("gpus:"));
  EXPECT_THAT(refusalOf(program + "processes: 2\n"), HasSubstr("worker-0 has 2"));
  EXPECT_THAT(refusalOf("program: {command: [a]}\n"), HasSubstr("program.image: is missing"));
  EXPECT_THAT(refusalOf(program + "volumes: [{path: out, claim: c}]\n"), HasSubstr("relative"));
  EXPECT_THAT(refusalOf(program + "deploy: false\n"), HasSubstr("nothing to print"));
  // torchrun starts the processes itself.
  render("strategy: torch\nprocesses: 4\nprogram: {command: [torchrun, a.py], image: i}\n");
}

TEST(RenderTest, NfsIsAServerAndAVolumeForAll) {
  const auto objects = renderNfs(
      {.name = "shared", .name_space = "ns", .image = "nfs:1", .size = std::int64_t{5} << 30});
  ASSERT_TRUE(objects);
  EXPECT_THAT(namesOf(*objects),
              ElementsAre("PersistentVolumeClaim/shared-disk", "Deployment/shared-server",
                          "Service/shared-server", "PersistentVolume/ns-shared",
                          "PersistentVolumeClaim/shared"));
  const json& volume = objects->at(3);
  EXPECT_FALSE(volume["metadata"].contains("namespace"));
  EXPECT_EQ(volume["spec"]["nfs"]["server"], "shared-server.ns.svc.cluster.local");
  EXPECT_EQ(volume["spec"]["accessModes"], json({"ReadWriteMany"}));
  EXPECT_EQ(objects->at(4)["spec"]["volumeName"], "ns-shared");
  EXPECT_FALSE(renderNfs({.name = "Shared", .name_space = "ns"}));
}

TEST(RenderTest, TextStaysTextInYaml) {
  const std::vector<json> objects{{{"kind", "A"},
                                   {"metadata", {{"name", "1"}}},
                                   {"zero", 0},
                                   {"yes", true},
                                   {"on", "true"},
                                   {"lines", "a: 1\n\n  b\n"},
                                   {"list", {{{"b", "null"}, {"name", "1e3"}}}},
                                   {"none", json::object()}},
                                  {{"kind", "B"}}};
  EXPECT_EQ(printAsYaml(objects),
            "kind: A\n"
            "metadata:\n"
            "  name: \"1\"\n"
            "lines: |\n"
            "  a: 1\n"
            "\n"
            "    b\n"
            "list:\n"
            "  - name: \"1e3\"\n"
            "    b: \"null\"\n"
            "none: {}\n"
            "\"on\": \"true\"\n"
            "\"yes\": true\n"
            "zero: 0\n"
            "---\n"
            "kind: B\n");
  EXPECT_EQ(json::parse(printAsJson(objects))["items"], json(objects));
}

}  // namespace
}  // namespace dure::kubernetes
