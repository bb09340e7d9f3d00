#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backend/kubernetes/record.h"
#include "backend/kubernetes/run_creation.h"
#include "backend/kubernetes/test_cluster.h"

namespace dure::kubernetes {

// A cluster with runs whose managers are played by the test.
class RunsTest : public ClusterTest {
 protected:
  // Its objects are all there, and its manager has not begun.
  KubeRun makeRun(const std::string& more = "", const std::string& name = "train") {
    const spec::Job job = jobOf("name: " + name +
                                "\nworkers: 2\nprogram: {command: [run], image: mine:1, ship: "
                                "false}\ntimeouts: {heartbeat: 1s, stop: 1s}\n" +
                                more);
    const auto run = createRun(client_, job, [] { return false; });
    EXPECT_TRUE(run) << (run ? "" : run.error().message());
    return run ? *run : KubeRun{};
  }
  // What a manager of the run writes.
  void write(const KubeRun& run, const std::vector<gang::Entry>& entries) {
    const auto journal = KubeJournal::open(loop_, client_, run, ownerOf(run));
    ASSERT_TRUE(journal) << journal.error().message();
    ASSERT_TRUE((*journal)->write(entries));
  }
  nlohmann::json ownerOf(const KubeRun& run) const {
    return ownerReference(api_.get(at(kube::kinds::kJobs, run.object())));
  }
  static gang::Entry entry(gang::EntryKind kind, int generation = 1) {
    return {.kind = kind, .time = SystemClock().now(), .generation = generation};
  }
  static gang::Entry finished(gang::Outcome outcome, const std::string& reason = "") {
    gang::Entry last = entry(gang::EntryKind::kFinished);
    last.outcome = outcome;
    last.reason = reason;
    return last;
  }
  // A pod of a task, which runs.
  std::string runTask(const KubeRun& run, int index, int generation = 1) {
    const std::string task = "worker-" + std::to_string(index);
    const std::string name = run.pod(task, generation);
    nlohmann::json labels = labelsOf(run, "task");
    labels[labels::kTask] = task;
    labels[labels::kGeneration] = std::to_string(generation);
    api_.put(podAt(name), {{"apiVersion", "v1"},
                           {"kind", "Pod"},
                           {"metadata",
                            {{"labels", labels},
                             {"annotations", {{annotations::kRanks, std::to_string(index)}}},
                             {"ownerReferences", nlohmann::json::array({ownerOf(run)})}}},
                           {"spec", {{"containers", nlohmann::json::array({{{"name", task}}})}}}});
    kubelet_.run(name);
    return name;
  }

  asio::io_context loop_;
};

}  // namespace dure::kubernetes
