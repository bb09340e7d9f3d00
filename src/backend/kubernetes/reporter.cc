#include "backend/kubernetes/reporter.h"

#include <chrono>
#include <utility>

#include <fmt/core.h>

#include "backend/kubernetes/objects.h"
#include "base/text.h"

namespace dure::kubernetes {
namespace {

using nlohmann::json;
using namespace std::chrono_literals;

constexpr std::size_t kMostMetrics = 400;
constexpr std::size_t kMostEntries = 500;
constexpr std::size_t kLongestReport = 2'000;
constexpr auto kPause = 100ms;
constexpr auto kMetricsPause = 3s;

// Of each rank's coming and going the journal tells; here it would only be noise.
bool isTelling(gang::EntryKind kind) {
  return kind != gang::EntryKind::kJoined && kind != gang::EntryKind::kExited &&
         kind != gang::EntryKind::kStopping;
}

std::string reasonOf(gang::EntryKind kind) {
  std::string name = gang::entryKindName(kind);
  name[0] = static_cast<char>(name[0] - 'a' + 'A');
  return name;
}

bool isWarning(const gang::Entry& entry) {
  return (entry.outcome && *entry.outcome != gang::Outcome::kSucceeded) ||
         (entry.kind == gang::EntryKind::kEnded && !entry.reason.empty());
}

}  // namespace

KubeReporter::KubeReporter(kube::KubeClient& client, KubeRun run, json job)
    : client_(client),
      run_(std::move(run)),
      job_(std::move(job)),
      worker_([this](const std::stop_token& stop) { work(stop); }) {}

KubeReporter::~KubeReporter() = default;

void KubeReporter::entry(const gang::Entry& entry) {
  if (!isTelling(entry.kind)) return;
  const std::lock_guard lock(mutex_);
  if (!mute_ && entries_.size() < kMostEntries) entries_.push_back(entry);
}

Status KubeReporter::metric(int, int rank, std::string_view line) {
  if (rank != 0 || line.size() > kLongestReport) return {};
  const std::lock_guard lock(mutex_);
  last_ = toValidUtf8(line);
  changed_ = true;
  if (reports_++ % every_ != 0) return {};
  metrics_.push_back(last_);
  if (metrics_.size() <= kMostMetrics) return {};
  // Half of them is enough to draw a curve.
  std::vector<std::string> fewer;
  for (std::size_t i = 0; i < metrics_.size(); i += 2) fewer.push_back(std::move(metrics_[i]));
  metrics_ = std::move(fewer);
  every_ *= 2;
  return {};
}

void KubeReporter::finish() {
  worker_.request_stop();
  if (worker_.joinable()) worker_.join();
}

void KubeReporter::work(const std::stop_token& stop) {
  auto told = std::chrono::steady_clock::now();
  while (true) {
    const bool ending = stop.stop_requested();
    std::optional<gang::Entry> next;
    bool metrics = false;
    {
      const std::lock_guard lock(mutex_);
      if (!entries_.empty()) next = entries_.front();
      const auto now = std::chrono::steady_clock::now();
      metrics = changed_ && (ending || now - told > kMetricsPause);
      if (metrics) told = now;
    }
    if (metrics) tellMetrics();
    if (next && tellEvent(*next)) {
      const std::lock_guard lock(mutex_);
      entries_.pop_front();
      continue;
    }
    // Nothing is left, or it does not get through.
    if (ending) return;
    std::this_thread::sleep_for(kPause);
  }
}

bool KubeReporter::tellEvent(const gang::Entry& entry) {
  const std::string time = formatTime(entry.time).substr(0, 19) + "Z";
  json about = ownerReference(job_);
  about["namespace"] = run_.name_space;
  const auto sent =
      client_.create({kube::kinds::kEvents, run_.name_space, "", ""},
                     {{"apiVersion", "v1"},
                      {"kind", "Event"},
                      {"metadata",
                       {{"generateName", run_.object() + "."},
                        {"namespace", run_.name_space},
                        {"labels", labelsOf(run_, "event")}}},
                      {"involvedObject", about},
                      {"reason", reasonOf(entry.kind)},
                      {"message", toValidUtf8(gang::describeEntry(entry).substr(0, 1000))},
                      {"type", isWarning(entry) ? "Warning" : "Normal"},
                      {"source", {{"component", "dure"}}},
                      {"firstTimestamp", time},
                      {"lastTimestamp", time},
                      {"count", 1}});
  // Not every account may; then there is no use in trying again with each.
  if (!sent && sent.error().code() == Code::kDenied) {
    const std::lock_guard lock(mutex_);
    mute_ = true;
  }
  return sent || sent.error().code() != Code::kUnavailable;
}

std::string KubeReporter::metricsText() {
  const std::lock_guard lock(mutex_);
  std::string text = join(metrics_, "\n");
  if (metrics_.empty() || metrics_.back() != last_) text += "\n" + last_;
  return text;
}

void KubeReporter::tellMetrics() {
  const std::lock_guard sending(sending_);
  {
    const std::lock_guard lock(mutex_);
    if (!std::exchange(changed_, false)) return;
  }
  if (sendMetrics()) return;
  const std::lock_guard lock(mutex_);
  changed_ = true;
}

bool KubeReporter::sendMetrics() {
  const kube::KubeAddress address{kube::kinds::kConfigMaps, run_.name_space, run_.metrics(), ""};
  if (!made_) {
    const std::string text = metricsText();
    const auto created =
        client_.create(address, {{"apiVersion", "v1"},
                                 {"kind", "ConfigMap"},
                                 {"metadata",
                                  {{"name", run_.metrics()},
                                   {"namespace", run_.name_space},
                                   {"labels", labelsOf(run_, "metrics")},
                                   {"ownerReferences", json::array({ownerReference(job_)})}}},
                                 {"data", {{"metrics.jsonl", text}}}});
    made_ = created || (created.error().code() == Code::kExists && takeUpMetrics());
    if (created) return true;
    if (created.error().code() == Code::kUnavailable) unconfirmed_ = text;
    if (!made_) {
      return created.error().code() != Code::kUnavailable &&
             created.error().code() != Code::kExists;
    }
  }
  const auto patched = client_.patch(address, {{"data", {{"metrics.jsonl", metricsText()}}}});
  return patched || patched.error().code() != Code::kUnavailable;
}

bool KubeReporter::takeUpMetrics() {
  const auto told = client_.get({kube::kinds::kConfigMaps, run_.name_space, run_.metrics(), ""});
  if (!told) return false;
  const std::string text = told->value("data", json::object()).value("metrics.jsonl", "");
  if (text == unconfirmed_) return true;  // it is ours: only the reply got lost
  std::vector<std::string> all = split(text, '\n');
  std::erase(all, "");
  const std::lock_guard lock(mutex_);
  all.insert(all.end(), metrics_.begin(), metrics_.end());
  metrics_ = std::move(all);
  return true;
}

}  // namespace dure::kubernetes
