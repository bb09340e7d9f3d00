#include "kube/test_kubelet.h"

namespace dure::kube {
namespace {

using nlohmann::json;

json condition(const char* type, bool so, const std::string& message = "") {
  return {{"type", type}, {"status", so ? "True" : "False"}, {"message", message}};
}

}  // namespace

void FakeKubelet::addNode(const std::string& name, int cpus, int gpus) {
  json amounts = {{"cpu", std::to_string(cpus)}, {"memory", "64Gi"}, {"pods", "110"}};
  if (gpus > 0) amounts["nvidia.com/gpu"] = std::to_string(gpus);
  api_.put({kinds::kNodes, "", name, ""},
           {{"apiVersion", "v1"},
            {"kind", "Node"},
            {"metadata", {{"labels", {{"kubernetes.io/hostname", name}}}}},
            {"spec", json::object()},
            {"status",
             {{"allocatable", amounts}, {"conditions", json::array({condition("Ready", true)})}}}});
}

void FakeKubelet::bind(const std::string& name, const std::string& node) {
  api_.change(pod(name), [&](json& pod) {
    pod["spec"]["nodeName"] = node;
    pod["status"]["conditions"] = json::array({condition("PodScheduled", true)});
  });
}

void FakeKubelet::cannotPlace(const std::string& name, const std::string& why) {
  api_.change(pod(name), [&](json& pod) {
    pod["status"]["conditions"] = json::array({condition("PodScheduled", false, why)});
  });
}

void FakeKubelet::setState(const std::string& name, const json& state, const json& whole) {
  api_.change(pod(name), [&](json& pod) {
    json& status = pod["status"];
    status.merge_patch(whole);
    status["containerStatuses"] = json::array();
    const json spec = pod.value("spec", json::object());
    for (const json& container : spec.value("containers", json::array())) {
      status["containerStatuses"].push_back({{"name", container.value("name", "")},
                                             {"image", container.value("image", "")},
                                             {"state", state}});
    }
  });
}

void FakeKubelet::run(const std::string& name, const std::string& node) {
  if (!api_.get(pod(name)).contains("/spec/nodeName"_json_pointer)) bind(name, node);
  setState(name, {{"running", json::object()}}, {{"phase", "Running"}});
}

void FakeKubelet::wait(const std::string& name, const std::string& reason,
                       const std::string& message) {
  setState(name, {{"waiting", {{"reason", reason}, {"message", message}}}}, {{"phase", "Pending"}});
}

void FakeKubelet::end(const std::string& name, int code, const std::string& reason,
                      const std::string& message) {
  setState(name, {{"terminated", {{"exitCode", code}, {"reason", reason}, {"message", message}}}},
           {{"phase", code == 0 ? "Succeeded" : "Failed"}});
  if (api_.get(pod(name)).contains("/metadata/deletionTimestamp"_json_pointer)) {
    api_.erase(pod(name));
  }
}

void FakeKubelet::evict(const std::string& name, const std::string& reason,
                        const std::string& message) {
  setState(name, {{"terminated", {{"exitCode", 137}, {"reason", "Error"}}}},
           {{"phase", "Failed"}, {"reason", reason}, {"message", message}});
}

void FakeKubelet::giveUp(const std::string& name, const std::string& reason) {
  api_.change(pod(name), [&](json& pod) {
    pod["status"]["phase"] = "Failed";
    pod["status"]["reason"] = reason;
  });
}

void FakeKubelet::finishJob(const std::string& job, const std::string& type) {
  api_.change({kinds::kJobs, name_space_, job, ""}, [&](json& object) {
    object["status"]["conditions"] = json::array({condition(type.c_str(), true)});
  });
}

}  // namespace dure::kube
