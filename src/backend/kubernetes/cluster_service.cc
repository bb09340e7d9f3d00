#include "backend/kubernetes/cluster_service.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "backend/kubernetes/manifest_parts.h"
#include "backend/kubernetes/pod_view.h"
#include "base/server_names.h"
#include "base/sha256.h"

namespace dure::kubernetes {
namespace {

using nlohmann::json;

constexpr int kPublicPort = 80;
constexpr std::size_t kLongestName = 63;  // of a Service: it is the first part of a host name
constexpr const char* kContainer = "service";
constexpr const char* kApplies = "dure";  // who says so, in a server-side apply
// Of a Deployment: the run's directory on the claim, which no other run has.
constexpr const char* kFolder = "dure/folder";
constexpr const char* kServiceLabel = "dure/service";

json labelsOfService(const std::string& name) {
  return {{labels::kManagedBy, plan::kManagedByDure}, {kServiceLabel, name}};
}

std::string selectorOfService(const std::string& name) {
  return fmt::format("{}={}", kServiceLabel, name);
}

json probeOf(const ClusterService& service, bool by_path) {
  if (!by_path || service.ready.empty()) return {{"tcpSocket", {{"port", service.port}}}};
  return {{"httpGet", {{"path", service.ready}, {"port", service.port}}}};
}

bool isOf(const json& deployment, const ClusterPlace& place) {
  return deployment.at("metadata").value("annotations", json::object()).value(kFolder, "") ==
         place.folder;
}

std::string addressOf(const json& service) {
  const json& spec = service.at("spec");
  const std::string type = spec.value("type", "ClusterIP");
  const json ingress = service.value("/status/loadBalancer/ingress"_json_pointer, json::array());
  if (!ingress.empty()) {
    return fmt::format("http://{}/", ingress[0].value("ip", ingress[0].value("hostname", "")));
  }
  if (type == "NodePort") {
    return fmt::format("http://NODE:{}/", spec.at("ports").at(0).value("nodePort", 0));
  }
  const std::string address = spec.value("clusterIP", "");
  std::string inside = address.empty() ? "" : fmt::format("http://{}/", address);
  if (type != "LoadBalancer" || inside.empty()) return inside;
  return inside + " inside the cluster; its load balancer has no address yet";
}

}  // namespace

std::string serviceName(const std::string& pipeline, const std::string& part) {
  std::string name = pipeline + "-" + part;
  if (name.size() <= kLongestName) return name;
  const std::string digest = sha256Hex(name).substr(0, 6);
  return fmt::format("{}-{}", name.substr(0, kLongestName - 1 - digest.size()), digest);
}

KubeObject deploymentOf(const ClusterService& service, const KubeImages& images) {
  const spec::Job& job = service.job;
  json variables = variablesOf({job.env.begin(), job.env.end()});
  // A server of ours that is told no address listens on this one.
  variables.push_back({{"name", server_variables::kHost}, {"value", "0.0.0.0"}});
  json container = {
      {"name", kContainer},
      {"image", job.program.image.empty() ? images.trainer : job.program.image},
      {"command", wordsOf(job.program.command)},
      {"env", variables},
      {"securityContext", containerSecurity(job)},
      {"resources", resourcesOf(job, job.resources.gpus)},
      {"volumeMounts", mountsOf(job, kPodWorkdir, true)},
  };
  if (!job.program.pull.empty()) container["imagePullPolicy"] = job.program.pull;
  if (service.port > 0) {
    container["ports"] = json::array({{{"containerPort", service.port}, {"protocol", "TCP"}}});
    container["readinessProbe"] = probeOf(service, true);
    container["readinessProbe"].update({{"periodSeconds", 2}, {"timeoutSeconds", 2}});
    // What waits for its model is alive.
    container["livenessProbe"] = probeOf(service, false);
    container["livenessProbe"].update(
        {{"initialDelaySeconds", 30}, {"periodSeconds", 10}, {"failureThreshold", 6}});
  }
  json pod = schedulingOf(job);
  pod["automountServiceAccountToken"] = false;
  pod["enableServiceLinks"] = false;
  pod["terminationGracePeriodSeconds"] = job.timeouts.stop.count() / 1000 + 5;
  pod["securityContext"] = podSecurity(job);
  addPullSecrets(job, pod);
  pod["containers"] = json::array({container});
  pod["volumes"] = volumesOf(job, true);
  const json labels = labelsOfService(service.name());
  return {
      kube::kinds::kDeployments,
      {{"apiVersion", "apps/v1"},
       {"kind", "Deployment"},
       {"metadata",
        {{"name", service.name()},
         {"namespace", service.place.name_space},
         {"labels", labels},
         {"annotations", {{kFolder, service.place.folder}}}}},
       {"spec",
        {{"replicas", 1},
         {"selector", {{"matchLabels", {{kServiceLabel, service.name()}}}}},
         {"strategy",
          {{"type", "RollingUpdate"}, {"rollingUpdate", {{"maxUnavailable", 0}, {"maxSurge", 1}}}}},
         {"template", {{"metadata", {{"labels", labels}}}, {"spec", pod}}}}}}};
}

KubeObject serviceOf(const ClusterService& service) {
  return {kube::kinds::kServices,
          {{"apiVersion", "v1"},
           {"kind", "Service"},
           {"metadata",
            {{"name", service.name()},
             {"namespace", service.place.name_space},
             {"labels", labelsOfService(service.name())}}},
           {"spec",
            {{"type", service.type},
             {"selector", {{kServiceLabel, service.name()}}},
             {"ports", json::array({{{"name", "http"},
                                     {"protocol", "TCP"},
                                     {"port", kPublicPort},
                                     {"targetPort", service.port}}})}}}}};
}

Status startService(kube::KubeClient& client, const ClusterService& service) {
  std::vector<KubeObject> objects;
  if (service.port > 0) objects.push_back(serviceOf(service));
  objects.push_back(deploymentOf(service, imagesFromEnvironment()));
  for (const KubeObject& object : objects) {
    const auto applied = client.apply({object.kind, service.place.name_space, service.name(), ""},
                                      object.object, kApplies);
    if (!applied) return applied.error();
  }
  return {};
}

Result<ServiceView> viewService(kube::KubeClient& client, const ClusterPlace& place,
                                const std::string& name) {
  const auto deployment = client.get({kube::kinds::kDeployments, place.name_space, name, ""});
  if (!deployment && deployment.error().code() == Code::kNotFound) return ServiceView{};
  if (!deployment) return deployment.error();
  if (!isOf(*deployment, place)) return ServiceView{};
  ServiceView view{.there = true};
  const json status = deployment->value("status", json::object());
  const std::int64_t wanted = deployment->at("metadata").value("generation", std::int64_t{1});
  // Of the last change: earlier pods do not count.
  view.ready = status.value("observedGeneration", std::int64_t{0}) >= wanted &&
               status.value("updatedReplicas", 0) >= 1 &&
               status.value("availableReplicas", 0) >= 1 &&
               status.value("unavailableReplicas", 0) == 0;
  if (view.ready) {
    if (const auto service = client.get({kube::kinds::kServices, place.name_space, name, ""})) {
      view.address = addressOf(*service);
    }
    return view;
  }
  const auto pods = client.listAll({kube::kinds::kPods, place.name_space, "", ""},
                                   {.labels = selectorOfService(name)});
  if (!pods) return pods.error();
  for (const json& pod : *pods) {
    const PodView seen = viewPod(pod);
    if (!seen.problem.empty()) view.problem = seen.problem;
  }
  return view;
}

Status stopService(kube::KubeClient& client, const ClusterPlace& place, const std::string& name) {
  const kube::KubeAddress address{kube::kinds::kDeployments, place.name_space, name, ""};
  const auto deployment = client.get(address);
  if (!deployment && deployment.error().code() == Code::kNotFound) return {};
  if (!deployment) return deployment.error();
  if (!isOf(*deployment, place)) return {};
  auto removed =
      client.remove(address, {.propagation = "Foreground",
                              .uid = deployment->at("metadata").at("uid").get<std::string>()});
  if (!removed) return removed;
  return client.remove({kube::kinds::kServices, place.name_space, name, ""});
}

Status serviceLogs(kube::KubeClient& client, const ClusterPlace& place, const std::string& name,
                   bool follow, const std::function<void(std::string_view)>& take) {
  const auto pods = client.listAll({kube::kinds::kPods, place.name_space, "", ""},
                                   {.labels = selectorOfService(name)});
  if (!pods) return pods.error();
  for (const json& pod : *pods) {
    const PodView view = viewPod(pod);
    if (view.phase == "Pending") continue;
    const bool last = &pod == &pods->back();
    std::string rest;
    auto read = client.logs(place.name_space, view.name,
                            {.container = kContainer, .follow = follow && last},
                            [&](std::string_view bytes) {
                              rest += bytes;
                              const std::size_t end = rest.rfind('\n') + 1;
                              if (end > 0) take(std::string_view(rest).substr(0, end));
                              rest.erase(0, end);
                              return true;
                            });
    if (!rest.empty()) take(rest);
    if (!read) return read;
  }
  return {};
}

}  // namespace dure::kubernetes
