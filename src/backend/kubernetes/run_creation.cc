#include "backend/kubernetes/run_creation.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include <fmt/core.h>

#include "backend/kubernetes/objects.h"
#include "backend/kubernetes/record.h"
#include "base/process.h"
#include "base/text.h"
#include "bundle/folder.h"

namespace dure::kubernetes {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int kMostAttempts = 20;

// True if what is written to `path` outlives the pod.
bool isKept(const spec::Job& job, const std::string& path) {
  const fs::path whole = (fs::path(kPodWorkdir) / path).lexically_normal();
  for (const spec::Volume& volume : spec::allVolumes(job)) {
    const fs::path root = (fs::path(kPodWorkdir) / volume.path).lexically_normal();
    const auto [end, rest] = std::mismatch(root.begin(), root.end(), whole.begin(), whole.end());
    if (end == root.end() && !volume.read_only) return true;
  }
  return false;
}

// A native job needs its folder only for what it reads from there.
bool needsFolder(const spec::Job& job) {
  if (!job.program.ship) return false;
  if (!spec::runsTrainer(job)) return true;
  const std::vector<spec::NamedPath> inputs = spec::trainingInputs(job.train);
  return std::any_of(inputs.begin(), inputs.end(), [&](const spec::NamedPath& input) {
    return fs::path(input.path).is_relative() && !isKept(job, input.path);
  });
}

// Where volumes lie in the folder: what is there now belongs to this machine, and must not be put
// over what is on the volume.
std::vector<std::string> volumePaths(const spec::Job& job) {
  std::vector<std::string> paths;
  for (const spec::Volume& volume : spec::allVolumes(job)) {
    const fs::path path = fs::path(volume.path).lexically_normal();
    if (path.is_relative()) paths.push_back(path.has_filename() ? path : path.parent_path());
  }
  return paths;
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
  Creation(kube::KubeClient& client, const spec::Job& job, const std::function<bool()>& interrupted)
      : client_(client), job_(job), interrupted_(interrupted) {}

  Result<KubeRun> create() {
    std::string archive;
    if (needsFolder(job_)) {
      auto folder = bundle::packFolder(
          job_.program.workdir, {.limit = job_.program.ship_limit, .without = volumePaths(job_)});
      if (!folder) return std::move(folder).error();
      archive = std::move(folder->archive);
    }
    spec::Job inside = job_;
    inside.program.workdir = kPodWorkdir;
    auto next = nextRun(client_, job_.name);
    if (!next) return next;
    run_ = *std::move(next);
    // Something of that name may be somebody else's, or be left of a run that is being removed.
    for (int attempt = 1;; ++attempt, ++run_.number) {
      if (auto made = createRecord(inside); !made) return std::move(made).error();
      const auto made = createRest(inside, archive);
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

  // With this number, or the next that is free.
  Status createRecord(const spec::Job& inside) {
    while (true) {
      const KubeObject object = recordObject(run_, inside);
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
    if (auto made = createAccount(inside, owner); !made) return made;
    for (json& piece : folderObjects(run_, archive)) {
      piece["metadata"]["ownerReferences"] = json::array({owner});
      if (auto made = put({kube::kinds::kConfigMaps, std::move(piece)}); !made) return made;
    }
    const KubeObject manager =
        managerObject(run_, inside, imagesFromEnvironment(), archive.size(), owner);
    return put(manager);
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
  const std::string token_ = randomToken();  // on all that is ours
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
  for (const auto& [field, path] :
       {std::pair("output", job.output), std::pair("checkpoint.path", job.checkpoint.path)}) {
    if (path.empty() || isKept(job, path)) continue;
    return Error(Code::kInvalid,
                 fmt::format("{}: {} is inside the pod and would be lost with it; put it on a "
                             "volume, such as volumes: [{{path: {}, claim: NAME}}]",
                             field, path, fs::path(path).begin()->string()));
  }
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
                          const std::function<bool()>& interrupted) {
  return Creation(client, job, interrupted).create();
}

}  // namespace dure::kubernetes
