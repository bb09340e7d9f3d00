#include "backend/kubernetes/run_watch.h"

#include <utility>

#include <fmt/core.h>

namespace dure::kubernetes {
namespace {

using nlohmann::json;

std::string nameOf(const json& object) {
  return object.value("metadata", json::object()).value("name", "");
}

}  // namespace

RunWatch::RunWatch(kube::KubeClient& client, KubeRun run) : client_(client), run_(std::move(run)) {
  jobs_.kind = kube::kinds::kJobs;
  jobs_.labels = selectorOf(run_, "manager");
  records_.kind = kube::kinds::kConfigMaps;
  // The folder is large, and never changes.
  records_.labels = fmt::format("{},{}!=folder", selectorOf(run_), labels::kPart);
  pods_.kind = kube::kinds::kPods;
  pods_.labels = selectorOf(run_);
  for (Part* part : {&jobs_, &records_, &pods_}) {
    part->thread = std::jthread([this, part](const std::stop_token& stop) { watch(*part, stop); });
  }
}

RunWatch::~RunWatch() {
  for (Part* part : {&jobs_, &records_, &pods_}) part->thread.request_stop();
  for (Part* part : {&jobs_, &records_, &pods_}) part->thread.join();
}

void RunWatch::change(const std::function<void()>& what) {
  const std::lock_guard lock(mutex_);
  what();
  changed_ = true;
  news_.notify_one();
}

void RunWatch::watch(Part& part, const std::stop_token& stop) {
  kube::keepWatching(
      client_,
      {.address = {part.kind, run_.name_space, "", ""},
       .selector = {.labels = part.labels, .fields = ""},
       .replaced =
           [&](std::vector<json>&& all) {
             change([&] {
               part.objects.clear();
               for (json& object : all) {
                 const std::string name = nameOf(object);
                 part.objects[name] = std::move(object);
               }
               part.known = true;
             });
           },
       .changed =
           [&](kube::WatchEvent event, json&& object) {
             change([&] {
               const std::string name = nameOf(object);
               if (event == kube::WatchEvent::kDeleted) {
                 part.objects.erase(name);
               } else {
                 part.objects[name] = std::move(object);
               }
             });
           },
       .trouble = [&](const std::optional<Error>& why) { change([&] { part.trouble = why; }); }},
      stop);
}

std::optional<RunObjects> RunWatch::next(std::chrono::milliseconds patience) {
  std::unique_lock lock(mutex_);
  news_.wait_for(lock, patience, [this] { return changed_; });
  const bool known = jobs_.known && records_.known && pods_.known;
  if (!known || !std::exchange(changed_, false)) return std::nullopt;
  RunObjects now;
  if (const auto job = jobs_.objects.find(run_.object()); job != jobs_.objects.end()) {
    now.manager = job->second;
  }
  for (const auto& [name, object] : records_.objects) {
    const std::string part = object.value("metadata", json::object())
                                 .value("labels", json::object())
                                 .value(labels::kPart, "");
    if (name == run_.object()) now.record = object;
    if (name == run_.metrics()) now.metrics = object;
    if (part == "journal") now.journal.push_back(object);
  }
  for (const auto& [name, pod] : pods_.objects) now.pods.push_back(pod);
  return now;
}

std::optional<Error> RunWatch::trouble() {
  const std::lock_guard lock(mutex_);
  for (const Part* part : {&records_, &jobs_, &pods_}) {
    if (part->trouble) return part->trouble;
  }
  return std::nullopt;
}

}  // namespace dure::kubernetes
