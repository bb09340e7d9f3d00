#include "backend/kubernetes/pod_logs.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "backend/kubernetes/pod_view.h"
#include "base/text.h"
#include "base/wait.h"
#include "protocol/rank_label.h"

namespace dure::kubernetes {
namespace {

using nlohmann::json;
using namespace std::chrono_literals;

// From the end of a container until the API server tells of it.
constexpr auto kEndIsSeen = 2s;
// Between two attempts to read what cannot be read: from the first to the longest.
constexpr auto kFirstPause = 200ms;
constexpr auto kLongestPause = 1s;

}  // namespace

struct PodLogs::Stream {
  std::string pod;
  std::string container;
  int generation = 0;
  std::vector<int> ranks;
  std::atomic<bool> done{false};
  std::jthread thread;
};

PodLogs::PodLogs(kube::KubeClient& client, KubeRun run, std::optional<int> generation, Take take)
    : client_(client), run_(std::move(run)), generation_(generation), take_(std::move(take)) {}

PodLogs::~PodLogs() {
  for (const auto& [pod, stream] : streams_) stream->thread.request_stop();
}

std::unique_ptr<PodLogs::Stream> PodLogs::streamOf(const json& pod) const {
  const json& metadata = pod.at("metadata");
  const json labels = metadata.value("labels", json::object());
  if (labels.value(labels::kPart, "") != "task") return nullptr;
  auto stream = std::make_unique<Stream>();
  stream->pod = metadata.at("name");
  stream->container = labels.value(labels::kTask, "");
  stream->generation = std::atoi(labels.value(labels::kGeneration, "0").c_str());
  for (const std::string& rank :
       split(metadata.value("annotations", json::object()).value(annotations::kRanks, ""), ',')) {
    if (!rank.empty()) stream->ranks.push_back(std::atoi(rank.c_str()));
  }
  return stream;
}

Status PodLogs::see(const std::vector<json>& pods, bool follow) {
  std::vector<std::unique_ptr<Stream>> found;
  {
    const std::lock_guard lock(mutex_);
    alive_.clear();
    for (const json& pod : pods) {
      auto stream = streamOf(pod);
      if (!stream) continue;
      const PodView view = viewPod(pod);
      if (!view.ended()) alive_.insert(view.name);
      if (streams_.contains(view.name)) continue;
      if (generation_ && *generation_ != stream->generation) continue;
      // There is nothing to read before the program has started. A worker of MPI prints through its
      // launcher.
      if (view.phase.empty() || view.phase == "Pending" || stream->ranks.empty()) continue;
      found.push_back(std::move(stream));
    }
    seen_.notify_all();
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
    return std::pair(a->generation, a->ranks) < std::pair(b->generation, b->ranks);
  });
  for (auto& stream : found) {
    Stream& running = *(streams_[stream->pod] = std::move(stream));
    running.thread = std::jthread([this, &running, follow](const std::stop_token& stop) {
      read(running, follow, stop);
      running.done = true;
    });
    // One after the other, so that what has been printed comes rank by rank.
    if (!follow) running.thread.join();
  }
  const std::lock_guard lock(mutex_);
  if (denied_) return *denied_;
  return {};
}

void PodLogs::read(Stream& stream, bool follow, const std::stop_token& stop) {
  std::size_t told = 0;  // lines
  auto pause = std::chrono::milliseconds(kFirstPause);
  while (!stop.stop_requested()) {
    std::size_t seen = 0;
    std::string rest;
    const auto take = [&](std::string_view bytes) {
      rest += bytes;
      std::string_view left = rest;
      while (true) {
        const std::size_t end = left.find('\n');
        if (end == std::string_view::npos) break;
        std::string_view line = left.substr(0, end + 1);
        left.remove_prefix(end + 1);
        // After a broken connection everything comes once more.
        if (seen++ < told) continue;
        ++told;
        int rank = stream.ranks.front();
        if (stream.ranks.size() > 1) rank = protocol::takeRankLabel(line, rank);
        const std::lock_guard lock(take_mutex_);
        take_(stream.generation, rank, line);
      }
      rest = std::string(left);
      return !stop.stop_requested();
    };
    const std::size_t before = told;
    const auto read = client_.logs(run_.name_space, stream.pod,
                                   {.container = stream.container, .follow = follow}, take, stop);
    if (!read && read.error().code() == Code::kNotFound) return;
    if (!read && read.error().code() == Code::kDenied) {
      const std::lock_guard lock(mutex_);
      denied_ = read.error();
      return;
    }
    // There may be nothing to read yet, or no way to its node: later, if there is a later.
    if (!read && !follow) return;
    // It also ends, as if that were all, when the node's kubelet goes away.
    if (read && (!follow || hasEnded(stream, stop))) return;
    if (told > before) pause = kFirstPause;
    if (!sleepFor(pause, stop)) return;
    pause = std::min(pause * 2, std::chrono::milliseconds(kLongestPause));
  }
}

bool PodLogs::hasEnded(const Stream& stream, const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  return seen_.wait_for(lock, stop, kEndIsSeen, [&] { return !alive_.contains(stream.pod); }) ||
         stop.stop_requested();
}

bool PodLogs::done() const {
  return std::all_of(streams_.begin(), streams_.end(),
                     [](const auto& stream) { return stream.second->done.load(); });
}

}  // namespace dure::kubernetes
