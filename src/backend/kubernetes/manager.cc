#include "backend/kubernetes/manager.h"

#include <signal.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdlib>
#include <functional>
#include <memory>
#include <thread>

#include <fmt/core.h>

#include "backend/kubernetes/record.h"
#include "backend/kubernetes/reporter.h"
#include "base/log.h"
#include "base/sha256.h"
#include "base/wait.h"
#include "spec/load.h"

namespace dure::kubernetes {
namespace {

using nlohmann::json;

constexpr auto kTryAgain = std::chrono::milliseconds(500);
// For an API server that is away at the end of a run; then another manager tries.
constexpr auto kServerPatience = std::chrono::minutes(10);
// Within the time that the pod has to end.
constexpr auto kAskedForDeletion = std::chrono::seconds(15);

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

class Manager {
 public:
  Manager(kube::KubeClient& client, KubeRun run, ManagerView& view, const ManagerTimes& times)
      : client_(client), run_(std::move(run)), times_(times), view_(view) {}

  std::optional<gang::Outcome> execute() {
    auto begun = begin();
    if (!begun) {
      view_.say(begun.error().message());
      return leave();
    }
    if (coordinator_) {
      waitForSignals();
      loop_.run();
      if (!ended_) return leave();
      if (journal_->lost()) {
        // What there is belongs to another manager, or is being deleted.
        view_.say("this manager has lost its run");
        return leave();
      }
    }
    end();
    if (!waitForTtl()) return std::nullopt;
    if (*ended_ == gang::Outcome::kSucceeded) return ended_;
    // A run that was stopped has brought no model either: whoever waits for the Job to be complete
    // must not go on.
    const auto fails = letJobFail();
    if (!fails) return std::nullopt;
    return *fails ? *ended_ : gang::Outcome::kSucceeded;
  }

 private:
  Status begin() {
    auto record = client_.get({kube::kinds::kConfigMaps, run_.name_space, run_.object(), ""});
    if (!record) return std::move(record).error();
    run_id_ = record->at("metadata").at("uid").get<std::string>();
    spec::Loaded loaded =
        spec::loadJobText("", record->value("data", json::object()).value(kJobKey, ""), {});
    if (!loaded.ok()) {
      return Error(Code::kInvalid, "the job of the run: " + loaded.problems.front().message);
    }
    job_ = std::move(loaded.job);
    auto manager = client_.get({kube::kinds::kJobs, run_.name_space, run_.object(), ""});
    if (!manager) return std::move(manager).error();
    // So that deleting the Job deletes the record, and with it everything.
    const json owner = ownerReference(*manager);
    const auto owned = client_.patch({kube::kinds::kConfigMaps, run_.name_space, run_.object(), ""},
                                     {{"metadata", {{"ownerReferences", json::array({owner})}}}});
    if (!owned) return owned.error();

    auto journal = KubeJournal::open(loop_, client_, run_, owner);
    if (!journal) return std::move(journal).error();
    journal_ = *std::move(journal);
    const gang::RunState before = gang::replay(journal_->before());
    const auto sees_nodes = seesNodes();
    if (!sees_nodes) return sees_nodes.error();
    backend_ = std::make_unique<KubernetesBackend>(
        loop_, client_,
        KubernetesBackend::Options{.run = run_,
                                   .job = job_,
                                   .images = imagesFromEnvironment(),
                                   .owner = owner,
                                   .address = variable(variables::kPodIp),
                                   .sees_nodes = *sees_nodes,
                                   .times = times_.backend});
    reporter_ = std::make_unique<KubeReporter>(client_, run_, *manager);
    // Whoever sees that a run has ended may read what it reported last.
    journal_->beforeEnd([this] { reporter_->tellMetrics(); });
    if (before.outcome) {
      ended_ = before.outcome;
      ended_at_ = journal_->before().back().time;
      late_ = true;
      return {};
    }
    if (job_.gpus > 0 && !*sees_nodes) {
      return endAtOnce(before,
                       "gpus: how they are split is planned from all nodes, and the manager's "
                       "account may not list nodes and pods of the whole cluster and hold the "
                       "Lease of placing");
    }
    if (auto cleared = backend_->begin(before); !cleared) return cleared;
    const gang::Entry first = beginning(before);
    if (auto written = journal_->write({first}); !written) return written;
    reporter_->entry(first);
    return startCoordinator(before);
  }

  gang::Entry beginning(const gang::RunState& before) {
    const bool fresh = before.created == TimePoint{};
    return {.kind = fresh ? gang::EntryKind::kCreated : gang::EntryKind::kResumed,
            .time = clock_.now(),
            .generation = before.generation,
            .run_id = run_id_};
  }

  // Another manager would not do better.
  Status endAtOnce(const gang::RunState& before, const std::string& why) {
    const gang::Entry last{.kind = gang::EntryKind::kFinished,
                           .time = clock_.now(),
                           .generation = before.generation,
                           .outcome = gang::Outcome::kInfrastructureFailed,
                           .reason = why};
    if (auto written = journal_->write({beginning(before), last}); !written) return written;
    reporter_->entry(last);
    view_.say(why);
    ended_ = last.outcome;
    ended_at_ = last.time;
    return {};
  }

  Status startCoordinator(const gang::RunState& before) {
    auto site = backend_->survey();
    if (!site) return std::move(site).error();
    site->run_id = run_id_;
    auto folder = readFolder(client_, run_);
    if (!folder) return std::move(folder).error();
    const std::string hash = folder->empty() ? "" : sha256Hex(*folder);
    signal(SIGPIPE, SIG_IGN);
    coordinator_ = std::make_unique<coordinator::Coordinator>(
        loop_, clock_, *backend_, *journal_,
        std::vector<coordinator::Observer*>{&view_, reporter_.get()},
        coordinator::Coordinator::Options{.run = run_.text(),
                                          .secret = variable(variables::kSecret),
                                          .job = job_,
                                          .site = *std::move(site),
                                          .before = before,
                                          .folder = *std::move(folder),
                                          .folder_hash = hash});
    watchRecord();
    stayInCharge();
    return coordinator_->start([this](gang::Outcome outcome, const std::string& reason) {
      ended_ = outcome;
      ended_at_ = clock_.now();
      view_.say(fmt::format("{} {}{}{}", run_.text(), gang::outcomeName(outcome),
                            reason.empty() ? "" : ": ", reason));
      loop_.stop();
    });
  }

  // Whether it may plan: see what is free, and keep others from planning meanwhile.
  Result<bool> seesNodes() {
    struct Right {
      const char* verb;
      kube::KubeAddress address;
    };
    const kube::KubeAddress lease{kube::kinds::kLeases, kPlacementNamespace, kPlacementLease, ""};
    for (const Right& right : {Right{"list", {kube::kinds::kNodes, "", "", ""}},
                               Right{"list", {kube::kinds::kPods, "", "", ""}},
                               Right{"create", {kube::kinds::kLeases, kPlacementNamespace, "", ""}},
                               Right{"get", lease}, Right{"delete", lease}}) {
      auto allowed = client_.isAllowed(right.verb, right.address);
      if (!allowed || !*allowed) return allowed;
    }
    return true;
  }

  // Whoever wants the run to stop writes it there.
  void watchRecord() {
    const auto look = [this](const json& record) {
      const std::string asked = record.value("metadata", json::object())
                                    .value("annotations", json::object())
                                    .value(annotations::kStop, "");
      if (asked.empty()) return;
      asio::post(loop_, [this, asked] {
        if (asked == asked_) return;
        asked_ = asked;
        coordinator_->stop("it was asked to stop", asked == "now");
      });
    };
    watcher_ = std::jthread([this, look](const std::stop_token& stop) {
      kube::keepWatching(client_,
                         {.address = {kube::kinds::kConfigMaps, run_.name_space, "", ""},
                          .selector = {.labels = selectorOf(run_, "record"), .fields = ""},
                          .replaced =
                              [look](std::vector<json>&& records) {
                                for (const json& record : records) look(record);
                              },
                          .changed = [look](kube::WatchEvent, json&& record) { look(record); },
                          .trouble = [](const std::optional<Error>&) {}},
                         stop);
    });
  }

  // Ends this manager when another one has the run, or may have without our knowing.
  void stayInCharge() {
    keeper_ = std::jthread([this](const std::stop_token& stop) {
      const auto longest = KubernetesBackend::longestAlone(job_);
      auto reached = std::chrono::steady_clock::now();
      while (!stop.stop_requested()) {
        const auto ours = journal_->isOurs();
        const auto now = std::chrono::steady_clock::now();
        if (ours) reached = now;
        if (!ours) logInfo("manager", "cannot look who has the run: {}", ours.error().message());
        if (ours && !*ours) logInfo("manager", "has lost the run to another manager");
        if ((ours && !*ours) || now - reached > longest) {
          asio::post(loop_, [this, lost = static_cast<bool>(ours)] {
            view_.say(lost ? "another manager has the run"
                           : "the API server has not answered for too long; another manager is to "
                             "take up the run");
            loop_.stop();
          });
          return;
        }
        sleepFor(times_.backend.look_in_charge, stop);
      }
    });
  }

  // The pod is to go, not the run: another manager takes it up.
  void waitForSignals() {
    signals_.async_wait([this](const boost::system::error_code& error, int) {
      if (error) return;
      view_.say("received SIGTERM; a new manager resumes the run unless it was deleted");
      loop_.stop();
    });
  }

  // Without an outcome. Whoever deletes a run deletes its parts in no order, so that it shows as a
  // lost journal as often as by a signal; what does not go with the run is ours to remove either
  // way.
  std::optional<gang::Outcome> leave() {
    if (isBeingDeleted()) {
      view_.say("the run is being deleted");
      removeClusterRole();
    }
    return std::nullopt;
  }

  // Only what is not there is deleted: an API server that is being restarted refuses what it grants
  // a moment later, and a manager that believed it would take the next one's rights away.
  bool isBeingDeleted() {
    const Wait patience(kAskedForDeletion);
    while (true) {
      const auto job = client_.get({kube::kinds::kJobs, run_.name_space, run_.object(), ""});
      if (job) return job->at("metadata").contains("deletionTimestamp");
      if (job.error().code() == Code::kNotFound) return true;
      if (!patience.pause(kTryAgain)) return false;
    }
  }

  // With it go our rights beyond the namespace.
  void removeClusterRole() {
    static_cast<void>(client_.remove({kube::kinds::kClusterRoles, "", run_.clusterObject(), ""}));
  }

  void end() {
    watcher_.request_stop();
    keeper_.request_stop();
    if (coordinator_) std::this_thread::sleep_for(times_.readers_catch_up);
    coordinator_.reset();
    if (auto cleaned = backend_->cleanUp(*ended_ == gang::Outcome::kSucceeded); !cleaned) {
      view_.say(cleaned.error().message());
    }
    reporter_->finish();
    removeClusterRole();
  }

  // Whether the model lies on storage that goes with the run, and nobody has it yet.
  bool isOutputAwaited() {
    const bool own =
        std::any_of(job_.volumes.begin(), job_.volumes.end(),
                    [&](const spec::Volume& volume) { return volume.claim == run_.object(); });
    if (*ended_ != gang::Outcome::kSucceeded || !own || job_.kubernetes.storage.keep) return false;
    const auto record = client_.get({kube::kinds::kConfigMaps, run_.name_space, run_.object(), ""});
    if (!record) return record.error().code() != Code::kNotFound;
    const json marks = record->at("metadata").value("annotations", json::object());
    return marks.contains(annotations::kOutput) && !marks.contains(annotations::kArrived);
  }

  // Deletes the run when its time has come. False if this manager has to go before that: the next
  // one waits for the rest of the time.
  bool waitForTtl() {
    if (job_.ttl.count() == 0) return true;
    asio::io_context loop{1};
    asio::steady_timer timer(loop, ended_at_ + job_.ttl - clock_.now());
    asio::signal_set signals(loop, SIGINT, SIGTERM);
    bool is_over = false;
    std::function<void(const boost::system::error_code&)> look =
        [&](const boost::system::error_code&) {
          is_over = !isOutputAwaited();
          if (is_over) return loop.stop();
          timer.expires_after(times_.look_for_arrival);
          timer.async_wait(look);
        };
    timer.async_wait(look);
    signals.async_wait([&](const boost::system::error_code&, int) { loop.stop(); });
    loop.run();
    const Wait patience(kServerPatience);
    while (is_over) {
      const auto removed = client_.remove({kube::kinds::kJobs, run_.name_space, run_.object(), ""});
      if (removed || removed.error().code() != Code::kUnavailable) break;
      if (!patience.pause(kTryAgain)) return false;
    }
    return is_over;
  }

  // Has the Job fail together with this pod; false if it will not, Unavailable if that cannot be
  // arranged now. The last thing that is done: from now on no other manager follows. Whoever comes
  // before this finds the run over, and comes here.
  Result<bool> letJobFail() {
    const Wait patience(kServerPatience);
    const kube::KubeAddress address{kube::kinds::kJobs, run_.name_space, run_.object(), ""};
    while (true) {
      auto job = client_.get(address);
      if (job) {
        // One failed pod more than there are. (With fewer a newer Kubernetes would at once delete
        // this pod and its log.) An older one counts otherwise when its controller was restarted,
        // and starts a manager once more; that one allows none.
        const int failed = job->value("status", json::object()).value("failed", 0);
        job = client_.patch(address, {{"spec", {{"backoffLimit", late_ ? 0 : failed}}}});
      }
      if (job) return true;
      if (job.error().code() != Code::kUnavailable) {
        if (job.error().code() != Code::kNotFound) view_.say(job.error().message());
        return false;
      }
      if (!patience.pause(kTryAgain)) return job.error();
    }
  }

  kube::KubeClient& client_;
  const KubeRun run_;
  const ManagerTimes times_;
  std::string run_id_;  // the uid of its record, which no other run has
  spec::Job job_;
  SystemClock clock_;
  asio::io_context loop_{1};
  asio::signal_set signals_{loop_, SIGINT, SIGTERM};
  ManagerView& view_;
  std::unique_ptr<KubeReporter> reporter_;
  std::unique_ptr<KubeJournal> journal_;
  std::unique_ptr<KubernetesBackend> backend_;
  std::unique_ptr<coordinator::Coordinator> coordinator_;
  std::jthread watcher_;
  std::jthread keeper_;
  std::string asked_;
  std::optional<gang::Outcome> ended_;
  TimePoint ended_at_;
  bool late_ = false;  // the run was over when this manager came
};

}  // namespace

std::optional<gang::Outcome> manageRun(kube::KubeClient& client, const KubeRun& run,
                                       ManagerView& view, const ManagerTimes& times) {
  return Manager(client, run, view, times).execute();
}

}  // namespace dure::kubernetes
