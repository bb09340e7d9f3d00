#include "backend/kubernetes/run_creation.h"

#include <algorithm>
#include <filesystem>
#include <stop_token>
#include <thread>
#include <utility>

#include <fmt/core.h>

#include "backend/kubernetes/data_claim.h"
#include "backend/kubernetes/manifest_parts.h"
#include "backend/kubernetes/objects.h"
#include "backend/kubernetes/record.h"
#include "backend/kubernetes/run_storage.h"
#include "backend/kubernetes/storage_class.h"
#include "base/process.h"
#include "base/text.h"
#include "base/wait.h"
#include "bundle/folder.h"

namespace dure::kubernetes {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int kMostAttempts = 20;
constexpr auto kLook = std::chrono::milliseconds(100);  // whether somebody has interrupted

// The trainer reads nothing of its folder that is not sent as data.
bool needsFolder(const spec::Job& job) { return job.program.ship && !spec::runsTrainer(job); }

// Where volumes lie in the folder, data that is sent apart among them: what is there now belongs
// to this machine, and must not be put over what is on the volume.
std::vector<std::string> volumePaths(const spec::Job& job) {
  std::vector<std::string> paths = job.program.data;
  for (const spec::Volume& volume : spec::allVolumes(job)) paths.push_back(volume.path);
  std::vector<std::string> inside;
  for (const fs::path path : paths) {
    const fs::path whole = path.lexically_normal();
    if (whole.is_relative()) inside.push_back(whole.has_filename() ? whole : whole.parent_path());
  }
  return inside;
}

// That there is somewhere to keep what the run keeps itself, as far as this user may see it.
Status checkStorage(kube::KubeClient& client, const spec::Job& job) {
  const OwnStorage own = ownStorage(job);
  const std::vector<LocalData> data = localDataOf(job);
  if (!own.needed() && data.empty()) return {};
  const auto there = hasStorageClass(client, job.kubernetes.storage.storage_class);
  if (!there) return there.error();
  if (*there) return {};
  if (const std::string& wanted = job.kubernetes.storage.storage_class; !wanted.empty()) {
    return noStorageClass(wanted);
  }
  const auto [field, path] = own.output ? std::pair{std::string("output"), job.output}
                             : own.checkpoint
                                 ? std::pair{std::string("checkpoint.path"), job.checkpoint.path}
                                 : std::pair{data[0].field, data[0].path};
  return Error(Code::kInvalid,
               fmt::format("{}: no volume of the job holds {}, and this cluster has no default "
                           "storage class to make one; name a class (kubernetes.storage.class), or "
                           "a claim: volumes: [{{path: {}, claim: NAME}}]",
                           field, path, fs::path(path).begin()->string()));
}

// What the trainer is to read must come from somewhere.
Status checkInputs(const spec::Job& job) {
  if (!spec::runsTrainer(job)) return {};
  for (const spec::NamedPath& input : spec::trainingInputs(job.train)) {
    std::error_code error;
    const fs::path path(input.path);
    if (path.is_absolute() || isOnVolume(job, input.path) ||
        fs::exists(fs::path(job.program.workdir) / path, error)) {
      continue;
    }
    return Error(Code::kInvalid,
                 fmt::format("{}: there is no {} here, and no volume of the job holds it",
                             input.field, input.path));
  }
  return {};
}

// That what the job names is there, as far as this user may see it.
Status checkNamed(kube::KubeClient& client, const spec::Job& job) {
  struct Named {
    const char* field;
    const char* what;
    kube::KubeKind kind;
    std::string name;
  };
  std::vector<Named> all;
  for (const spec::Volume& volume : spec::allVolumes(job)) {
    if (!volume.claim.empty())
      all.push_back({"volumes", "claim", kube::kinds::kClaims, volume.claim});
  }
  for (const std::string& secret : job.kubernetes.pull_secrets) {
    all.push_back({"kubernetes.pull_secrets", "secret", kube::kinds::kSecrets, secret});
  }
  if (!job.kubernetes.account.empty()) {
    all.push_back({"kubernetes.account", "service account", kube::kinds::kServiceAccounts,
                   job.kubernetes.account});
  }
  const std::string& name_space = client.access().name_space;
  for (const Named& named : all) {
    const auto found = client.get({named.kind, name_space, named.name, ""});
    if (found || found.error().code() == Code::kDenied) continue;
    if (found.error().code() != Code::kNotFound) return found.error();
    return Error(Code::kInvalid, fmt::format("{}: there is no {} {} in namespace {}", named.field,
                                             named.what, named.name, name_space));
  }
  return {};
}

// Everything that is created before the manager, and the manager last: what a run needs is there
// when it begins. The record owns the rest, so that it is enough to remove that.
class Creation {
 public:
  Creation(kube::KubeClient& client, const spec::Job& job, const std::function<bool()>& interrupted,
           const CreationNews& news)
      : client_(client), job_(job), interrupted_(interrupted), news_(news) {}

  Result<KubeRun> create() {
    std::string archive;
    if (needsFolder(job_)) {
      auto folder = bundle::packFolder(
          job_.program.workdir, {.limit = job_.program.ship_limit, .without = volumePaths(job_)});
      if (!folder) return std::move(folder).error();
      archive = std::move(folder->archive);
    }
    if (auto sent = sendData(); !sent) return std::move(sent).error();
    auto next = nextRun(client_, job_.name);
    if (!next) return next;
    run_ = *std::move(next);
    // Something of that name may be somebody else's, or be left of a run that is being removed.
    for (int attempt = 1;; ++attempt, ++run_.number) {
      if (auto made = createRecord(); !made) return std::move(made).error();
      const auto made = createRest(inside(), archive);
      if (made) return run_;
      undo();
      if (made.error().code() != Code::kExists || attempt == kMostAttempts) return made.error();
    }
  }

 private:
  // By deleting what is ours for certain: the record, with which goes what it owns, and the
  // ClusterRole, which is in no namespace.
  void undo() {
    removeClusterRole();
    static_cast<void>(client_.remove({kube::kinds::kConfigMaps, run_.name_space, run_.object(), ""},
                                     {.uid = record_.at("metadata").at("uid").get<std::string>()}));
  }

  // Not part of the run: later ones find it there.
  Status sendData() {
    std::stop_source interruption;
    const std::jthread watch([&](const std::stop_token& stop) {
      while (sleepFor(kLook, stop)) {
        if (interrupted_()) interruption.request_stop();
      }
    });
    for (const LocalData& data : localDataOf(job_)) {
      const auto sending = [&](std::int64_t bytes, std::int64_t of) {
        if (news_) news_(data.here, bytes, of);
      };
      auto claim = bringData(client_, job_, data, sending, Wait(interruption.get_token()));
      if (interrupted_()) return Error(Code::kUnavailable, "interrupted");
      if (!claim) return std::move(claim).error();
      sent_.push_back({data, *std::move(claim)});
    }
    return {};
  }

  // The job as the manager is to run it.
  spec::Job inside() const { return placedInCluster(job_, run_.object(), sent_); }

  // With this number, or the next that is free.
  Status createRecord() {
    while (true) {
      KubeObject object = recordObject(run_, inside());
      if (!job_.output.empty()) {
        object.object["metadata"]["annotations"][annotations::kOutput] = job_.output;
      }
      auto made = create(object);
      if (made) {
        record_ = *std::move(made);
        return {};
      }
      if (made.error().code() != Code::kExists) return std::move(made).error();
      ++run_.number;
    }
  }

  Status createRest(const spec::Job& inside, const std::string& archive) {
    const json owner = ownerReference(record_);
    for (const KubeObject& object : supportObjects(run_, inside, randomToken(), owner)) {
      if (auto made = put(object); !made) return made;
    }
    if (ownStorage(job_).needed()) {
      if (auto made = put({kube::kinds::kClaims, storageClaim(owner)}); !made) return made;
    }
    if (auto made = createAccount(inside, owner); !made) return made;
    for (json& piece : folderObjects(run_, archive)) {
      piece["metadata"]["ownerReferences"] = json::array({owner});
      if (auto made = put({kube::kinds::kConfigMaps, std::move(piece)}); !made) return made;
    }
    const KubeObject manager =
        managerObject(run_, inside, imagesFromEnvironment(), archive.size(), owner);
    return put(manager);
  }

  // For what the run keeps. It goes with the run, unless the job says otherwise.
  json storageClaim(const json& owner) const {
    const spec::Storage& storage = job_.kubernetes.storage;
    json claim = claimOf(run_.object(), accessModeOf(job_), storage.size, storage.storage_class);
    claim["metadata"]["labels"] = labelsOf(run_, "storage");
    if (!storage.keep) claim["metadata"]["ownerReferences"] = json::array({owner});
    return claim;
  }

  // The account of the manager and its rights, unless an administrator has made them.
  Status createAccount(const spec::Job& inside, const json& owner) {
    if (!inside.kubernetes.account.empty()) return {};
    // Who may not grant it has the scheduler place the pods.
    const auto granted = grantNodes();
    if (!granted && job_.gpus > 0) {
      return Error(
          granted.error().code(),
          "gpus: how they are split is planned from all nodes, which the manager cannot be "
          "let see: " +
              granted.error().message());
    }
    json owners = json::array({owner});
    if (granted) owners.push_back(ownerReference(*granted));
    std::vector<KubeObject> objects = accountObjects(run_, EventRights::kGranted, owners);
    auto role = put(objects.front());
    if (!role && role.error().code() == Code::kDenied) {
      objects = accountObjects(run_, EventRights::kLeftOut, owners);
      role = put(objects.front());
    }
    if (!role) return role;
    objects.erase(objects.begin());
    for (const KubeObject& object : objects) {
      if (auto made = put(object); !made) return made;
    }
    return {};
  }

  // The ClusterRole that lets the manager see nodes.
  Result<json> grantNodes() {
    removeForgotten();
    const auto owner = client_.get({kube::kinds::kNamespaces, "", run_.name_space, ""});
    if (!owner) return owner.error();
    auto role = create(clusterRole(run_, ownerReference(*owner)));
    if (!role) return role;
    cluster_role_ = role->at("metadata").at("uid");
    const auto bound = create(clusterBinding(run_, ownerReference(*role)));
    if (bound) return role;
    removeClusterRole();
    return bound.error();
  }

  // Ours, if there is one.
  void removeClusterRole() {
    if (cluster_role_.empty()) return;
    static_cast<void>(client_.remove({kube::kinds::kClusterRoles, "", run_.clusterObject(), ""},
                                     {.uid = std::exchange(cluster_role_, "")}));
  }

  // What runs of this namespace have left whose Job was deleted while no manager was there. One of
  // them may have had the number that is ours now.
  void removeForgotten() {
    const auto roles = client_.listAll(
        {kube::kinds::kClusterRoles, "", "", ""},
        {.labels = fmt::format("{}={}", labels::kManagedBy, plan::kManagedByDure), .fields = ""});
    if (!roles) return;
    for (const json& role : *roles) {
      const json labels = role.at("metadata").value("labels", json::object());
      const KubeRun run{.name_space = run_.name_space,
                        .job = labels.value(labels::kJob, ""),
                        .number = std::atoi(labels.value(labels::kRun, "0").c_str())};
      const std::string name = role.at("metadata").at("name");
      if (name != run.clusterObject()) continue;
      if (name != run_.clusterObject() && !isRemoved(run)) continue;
      static_cast<void>(client_.remove({kube::kinds::kClusterRoles, "", name, ""},
                                       {.uid = role.at("metadata").at("uid").get<std::string>()}));
    }
  }

  bool isRemoved(const KubeRun& run) {
    const auto record = client_.get({kube::kinds::kConfigMaps, run.name_space, run.object(), ""});
    return !record && record.error().code() == Code::kNotFound;
  }

  Status put(const KubeObject& object) {
    if (interrupted_()) return Error(Code::kUnavailable, "interrupted");
    auto made = create(object);
    if (!made) return std::move(made).error();
    return {};
  }

  // If the reply gets lost, looks whether it was made; it is ours if it has our token.
  Result<json> create(KubeObject object) {
    json& metadata = object.object["metadata"];
    metadata["annotations"][annotations::kWriter] = token_;
    kube::KubeAddress address{object.kind, run_.name_space, metadata.at("name"), ""};
    auto made = client_.create(address, object.object);
    if (made || made.error().code() != Code::kUnavailable) return made;
    auto there = client_.get(address);
    const bool ours = there && there->at("metadata")
                                       .value("annotations", json::object())
                                       .value(annotations::kWriter, "") == token_;
    return ours ? there : made;
  }

  kube::KubeClient& client_;
  const spec::Job& job_;
  const std::function<bool()>& interrupted_;
  const CreationNews& news_;
  const std::string token_ = randomToken();  // on all that is ours
  std::vector<SentData> sent_;
  KubeRun run_;
  json record_;
  std::string cluster_role_;  // the uid of that which lets the manager see nodes; empty: none
};

}  // namespace

Status checkRun(kube::KubeClient& client, const spec::Job& job) {
  if (job.program.image.empty() && !spec::runsTrainer(job)) {
    return Error(Code::kInvalid,
                 "program.image: on Kubernetes a program runs in an image; name one, such as "
                 "python:3.11");
  }
  if (auto there = checkInputs(job); !there) return there;
  if (auto there = checkStorage(client, job); !there) return there;
  if (auto there = checkNamed(client, job); !there) return there;
  if (job.timeouts.heartbeat.count() == 0) {
    return Error(
        Code::kInvalid,
        "timeouts.heartbeat: on Kubernetes a pod that is not heard of for so long is taken "
        "for lost, so it cannot be never; give a time, such as 30s");
  }
  // With an account of its own the manager finds out what it may.
  if (job.gpus > 0 && job.kubernetes.account.empty()) {
    for (const kube::KubeKind& kind : {kube::kinds::kNodes, kube::kinds::kPods}) {
      const auto allowed = client.isAllowed("list", {kind, "", "", ""});
      if (!allowed) return allowed.error();
      if (*allowed) continue;
      return Error(Code::kDenied,
                   fmt::format("gpus: how {} GPUs are split is planned from all nodes, and you may "
                               "not list {} of the whole cluster; give workers and resources.gpus "
                               "instead",
                               job.gpus, kind.plural));
    }
  }
  return {};
}

Result<KubeRun> nextRun(kube::KubeClient& client, const std::string& job) {
  KubeRun run{.name_space = client.access().name_space, .job = job, .number = 1};
  const auto records = listRecords(client, run.name_space, job);
  if (!records) return records.error();
  for (const KubeRecord& record : *records)
    run.number = std::max(run.number, record.run.number + 1);
  return run;
}

Result<KubeRun> createRun(kube::KubeClient& client, const spec::Job& job,
                          const std::function<bool()>& interrupted, const CreationNews& news) {
  return Creation(client, job, interrupted, news).create();
}

}  // namespace dure::kubernetes
