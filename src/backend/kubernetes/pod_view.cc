#include "backend/kubernetes/pod_view.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "backend/kubernetes/names.h"
#include "base/text.h"
#include "protocol/agent_options.h"

namespace dure::kubernetes {
namespace {

using nlohmann::json;

constexpr std::array<std::string_view, 2> kHopeless = {"InvalidImageName", "ErrImageNeverPull"};
constexpr std::array<std::string_view, 5> kDoubtful = {"ErrImagePull", "ImagePullBackOff",
                                                       "CreateContainerError", "RunContainerError",
                                                       "CreateContainerConfigError"};

constexpr std::array<std::string_view, 2> kUnstartable = {"StartError", "ContainerCannotRun"};
// Beyond it, a signal ended the process.
constexpr int kLastOwnCode = 128;

std::string text(const json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

const json& child(const json& object, const char* name) {
  static const json kNothing = json::object();
  const auto found = object.find(name);
  return found != object.end() ? *found : kNothing;
}

bool isOneOf(const auto& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

void lookAt(const json& container, PodView& view) {
  const json& waiting = child(child(container, "state"), "waiting");
  const std::string reason = text(waiting, "reason");
  const bool hopeless = isOneOf(kHopeless, reason);
  if (!hopeless && !isOneOf(kDoubtful, reason)) return;
  view.hopeless = view.hopeless || hopeless;
  view.doubtful = view.doubtful || !hopeless;
  const std::string message = text(waiting, "message");
  view.problem = reason.find("Image") != std::string::npos
                     ? fmt::format("cannot pull image {} ({}{}{})", text(container, "image"),
                                   reason, message.empty() ? "" : ": ", message)
                     : fmt::format("{}{}{}", reason, message.empty() ? "" : ": ", message);
}

// The last line that is not empty.
std::string lastLine(const std::string& lines) {
  const std::size_t end = lines.find_last_not_of(" \r\n");
  if (end == std::string::npos) return "";
  const std::size_t before = lines.rfind('\n', end);
  const std::size_t begin = before == std::string::npos ? 0 : before + 1;
  return lines.substr(begin, end + 1 - begin);
}

// How a container has failed, if that was before any program was started in it.
void lookAtEnd(const json& container, bool init, PodView& view) {
  const json& ended = child(child(container, "state"), "terminated");
  const int code = ended.value("exitCode", 0);
  if (code == 0) return;
  const std::string reason = text(ended, "reason");
  const std::string message = text(ended, "message");
  const std::string words = lastLine(message);
  const auto complaint = protocol::complaintIn(words);
  if (isOneOf(kUnstartable, reason)) {
    // The runtime's words go from what it was doing to what went wrong.
    view.problem = fmt::format("its container {} could not be started ({}{}{})",
                               text(container, "name"), reason, words.empty() ? "" : ": ", words);
    view.hopeless = true;
  } else if (init) {
    // Somebody may have killed it; but for want of memory it will be killed again.
    view.hopeless = code <= kLastOwnCode || reason == "OOMKilled";
    const std::string why =
        complaint ? *complaint
                  : fmt::format("exit code {}{}{}", code, reason.empty() ? "" : ", ", reason);
    view.problem = "the agent cannot be put into its pod: " + why;
  } else if (reason == "OOMKilled") {
    view.problem = "its pod ran out of memory; resources.memory gives it more";
    view.by_program = true;
  } else if (complaint) {
    view.problem = "its agent ended: " + *complaint;
  }
}

// The scheduler gives one reason, Unschedulable, for what passes when others end and for what does
// not; only its words tell which. What they do not tell for certain is taken for what passes.
bool neverPasses(std::string_view words) {
  const std::size_t claim = words.find("persistentvolumeclaim \"");
  if (claim != std::string_view::npos && words.find("\" not found", claim) != words.npos)
    return true;
  constexpr std::string_view kBegin = "nodes are available: ";
  const std::size_t begin = words.find(kBegin);
  if (begin == std::string_view::npos) return false;
  words.remove_prefix(begin + kBegin.size());
  // Newer ones go on about preemption.
  words = words.substr(0, words.find(". "));
  for (const std::string& reason : split(words, ',')) {
    if (reason.find("didn't match") == std::string::npos) return false;
    if (reason.find("node selector") == std::string::npos &&
        reason.find("node affinity") == std::string::npos) {
      return false;
    }
  }
  return true;
}

// Whether its kubelet has seen its end: each container has ended, or never came to run because one
// before it failed.
bool sawEnd(const json& status) {
  const json& inits = child(status, "initContainerStatuses");
  const json& mains = child(status, "containerStatuses");
  const auto ended = [](const json& container) {
    return child(container, "state").contains("terminated");
  };
  const bool failed = std::any_of(inits.begin(), inits.end(), [&](const json& container) {
    const json& end = child(child(container, "state"), "terminated");
    return end.is_object() && end.value("exitCode", 0) != 0;
  });
  return failed || (!mains.empty() && std::all_of(mains.begin(), mains.end(), ended));
}

bool isFirst(const std::string& ranks) { return ranks == "0" || ranks.rfind("0,", 0) == 0; }

}  // namespace

PodView viewPod(const json& pod) {
  const json& metadata = child(pod, "metadata");
  const json& tags = child(metadata, "labels");
  const json& status = child(pod, "status");
  PodView view{.name = text(metadata, "name"),
               .task = text(tags, labels::kTask),
               .generation = std::atoi(text(tags, labels::kGeneration).c_str()),
               .first = isFirst(text(child(metadata, "annotations"), annotations::kRanks)),
               .node = text(child(pod, "spec"), "nodeName"),
               .phase = text(status, "phase"),
               .deleting = metadata.contains("deletionTimestamp")};
  view.nothing_runs = view.node.empty() || sawEnd(status);
  for (const char* group : {"initContainerStatuses", "containerStatuses"}) {
    for (const json& container : child(status, group)) lookAt(container, view);
  }
  if (!view.problem.empty()) return view;
  if (view.phase == "Failed" && !text(status, "reason").empty()) {
    const std::string message = text(status, "message");
    view.problem =
        fmt::format("{}{}{}", text(status, "reason"), message.empty() ? "" : ": ", message);
    return view;
  }
  if (view.phase == "Failed") {
    for (const json& container : child(status, "initContainerStatuses")) {
      lookAtEnd(container, true, view);
    }
    for (const json& container : child(status, "containerStatuses")) {
      if (view.problem.empty()) lookAtEnd(container, false, view);
    }
    return view;
  }
  for (const json& condition : child(status, "conditions")) {
    if (text(condition, "type") == "PodScheduled" && text(condition, "status") == "False") {
      view.problem = text(condition, "message");
      view.unplaceable = neverPasses(view.problem);
    }
  }
  return view;
}

}  // namespace dure::kubernetes
