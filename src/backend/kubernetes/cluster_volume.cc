#include "backend/kubernetes/cluster_volume.h"

#include <filesystem>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "backend/kubernetes/manifest_parts.h"
#include "backend/kubernetes/names.h"
#include "backend/kubernetes/objects.h"
#include "backend/kubernetes/pod_view.h"
#include "backend/kubernetes/storage_class.h"
#include "base/files.h"
#include "base/sha256.h"
#include "base/text.h"

namespace dure::kubernetes {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::size_t kLargestPlace = 1 << 16;
constexpr std::size_t kLongestJobName = 40;
constexpr const char* kVolumePart = "pipeline-volume";
constexpr const char* kInCharge = "dure/pipeline";

json labelsOfClaim() {
  return {{labels::kManagedBy, plan::kManagedByDure}, {labels::kPart, kVolumePart}};
}

// Of the pod that the process in charge of a run has; others look at its outputs meanwhile.
json labelsOfPod(const ClusterPlace& place, bool in_charge) {
  json labels = labelsOfClaim();
  if (in_charge) labels[kInCharge] = place.folder;
  return labels;
}

bool isOurs(const json& claim) {
  const json labels = claim.at("metadata").value("labels", json::object());
  return labels.value(labels::kPart, "") == kVolumePart;
}

}  // namespace

std::string ClusterPlace::description() const {
  return fmt::format("claim {} of namespace {}, /{}/volume", claim, name_space, folder);
}

std::string ClusterPlace::jobOf(const std::string& part) const {
  std::string name = fmt::format("{}-{}", folder, part);
  if (name.size() <= kLongestJobName) return name;
  const std::string digest = sha256Hex(name).substr(0, 6);
  return fmt::format("{}-{}", name.substr(0, kLongestJobName - 1 - digest.size()), digest);
}

json toJson(const ClusterPlace& place) {
  return {{"context", place.context},
          {"namespace", place.name_space},
          {"claim", place.claim},
          {"folder", place.folder}};
}

Result<std::optional<ClusterPlace>> readPlace(const runs::RunPaths& record) {
  const std::string path = record.cluster();
  if (!fileExists(path)) return std::optional<ClusterPlace>();
  const auto text = readFile(path, kLargestPlace);
  if (!text) return text.error();
  const json found = json::parse(*text, nullptr, false);
  ClusterPlace place;
  for (const auto& [name, field] : {std::pair{"context", &place.context},
                                    {"namespace", &place.name_space},
                                    {"claim", &place.claim},
                                    {"folder", &place.folder}}) {
    const auto value = found.is_object() ? found.find(name) : found.end();
    if (value == found.end() || !value->is_string()) {
      return Error(Code::kInvalid, path + " is damaged");
    }
    *field = value->get<std::string>();
  }
  return std::optional(std::move(place));
}

ClusterVolume::ClusterVolume(kube::KubeClient& client, ClusterPlace place, spec::Job like,
                             const runs::RunStore& store, runs::RunId id, bool fresh)
    : client_(client),
      place_(std::move(place)),
      like_(std::move(like)),
      store_(store),
      id_(std::move(id)),
      fresh_(fresh),
      tree_(place_.root()) {}

kube::KubeAddress ClusterVolume::claimAddress() const {
  return {kube::kinds::kClaims, place_.name_space, place_.claim, ""};
}

Status ClusterVolume::takeCharge(bool named) {
  in_charge_ = true;
  // The process that was in charge before this one may have been killed.
  const auto pods =
      client_.listAll({kube::kinds::kPods, place_.name_space, "", ""},
                      {.labels = fmt::format("{}={}", kInCharge, place_.folder), .fields = ""});
  if (!pods) return pods.error();
  for (const json& pod : *pods) {
    const std::string name = pod.at("metadata").at("name");
    auto removed =
        client_.remove({kube::kinds::kPods, place_.name_space, name, ""}, {.grace_seconds = 0});
    if (!removed) return removed;
  }
  return makeClaim(named);
}

Status ClusterVolume::makeClaim(bool named) {
  const auto there = client_.get(claimAddress());
  if (there) return {};
  if (there.error().code() != Code::kNotFound) return there.error();
  if (named) {
    return Error(Code::kInvalid, fmt::format("claim: there is no claim {} in the namespace {}",
                                             place_.claim, place_.name_space));
  }
  const spec::Storage& storage = like_.kubernetes.storage;
  const auto has_class = hasStorageClass(client_, storage.storage_class);
  if (!has_class) return has_class.error();
  if (!*has_class && !storage.storage_class.empty()) return noStorageClass(storage.storage_class);
  if (!*has_class) {
    return Error(Code::kInvalid,
                 "the steps share a claim, and this cluster has no default storage class to make "
                 "one; name a class (kubernetes: {storage: {class: NAME}}), or a claim (claim: "
                 "NAME)");
  }
  // Parts on several nodes write there.
  json claim = claimOf(place_.claim, storage.access.empty() ? "ReadWriteMany" : storage.access,
                       storage.size, storage.storage_class);
  claim["metadata"]["labels"] = labelsOfClaim();
  const auto made = client_.create(claimAddress(), claim);
  if (made || made.error().code() == Code::kExists) return {};
  return made.error();
}

Status ClusterVolume::findPod() {
  const auto claim = client_.get(claimAddress());
  if (!claim) return claim.error();
  if (pod_) {
    const auto pod = client_.get({kube::kinds::kPods, place_.name_space, pod_->name(), ""});
    if (pod && viewPod(*pod).phase == "Running") return {};
    if (!pod && pod.error().code() != Code::kNotFound) return pod.error();
  }
  pod_ = std::make_unique<HelperPod>(client_, place_.name_space, like_);
  auto started = pod_->start(
      {.name = place_.folder + "-volume",
       .labels = labelsOfPod(place_, in_charge_),
       .owner = ownerReference(*claim),
       .volumes = json::array(
           {{{"name", "volume"}, {"persistentVolumeClaim", {{"claimName", place_.claim}}}}}),
       .mounts = json::array({{{"name", "volume"}, {"mountPath", ClusterPlace::kMount}}}),
       .purpose = "looks after the claim " + place_.claim},
      Wait());
  if (!started) pod_.reset();
  return started;
}

Result<json> ClusterVolume::call(const std::vector<std::string>& words) {
  if (auto found = findPod(); !found) return std::move(found).error();
  kube::ExecRequest request{.name_space = place_.name_space,
                            .pod = pod_->name(),
                            .container = HelperPod::kContainer,
                            .command = {"dure", "pipeline-volume", place_.root(), "--"},
                            .input = nullptr};
  request.command.insert(request.command.end(), words.begin(), words.end());
  std::string answer;
  std::string complaint;
  const auto code =
      kube::exec(client_, request, [&](kube::ExecStream stream, std::string_view bytes) {
        (stream == kube::ExecStream::kOut ? answer : complaint) += bytes;
      });
  if (!code) return code.error();
  json parsed = json::parse(answer, nullptr, false);
  if (*code == 0 && parsed.is_object()) return parsed;
  while (!complaint.empty() && complaint.back() == '\n') complaint.pop_back();
  return Error(Code::kUnavailable,
               fmt::format("on the claim {}: {}", place_.claim,
                           complaint.empty() ? "the pod that looks after it ended" : complaint));
}

pipeline::Folders ClusterVolume::foldersOf(const std::string& folder) const {
  pipeline::Folders folders = tree_.foldersOf(folder);
  folders.run = id_.text();
  return folders;
}

Status ClusterVolume::prepare(const std::string& folder, bool goes_on) {
  const auto answer = call({goes_on ? "go-on" : "prepare", folder});
  return answer ? Status{} : answer.error();
}

Result<std::string> ClusterVolume::publish(const std::string& folder) {
  const auto answer = call({"publish", folder});
  if (!answer) return answer.error();
  return answer->value("digest", "");
}

Result<bool> ClusterVolume::has(const std::string& folder) {
  const auto answer = call({"has", folder});
  if (!answer) return answer.error();
  return answer->value("there", false);
}

Status ClusterVolume::report(const std::string& part, const std::string& text) {
  const auto answer = call({"report", part, text});
  return answer ? Status{} : answer.error();
}

Result<std::optional<pipeline::Reused>> ClusterVolume::reuse(const std::string& part,
                                                             const std::string& folder,
                                                             const std::string& key) {
  if (fresh_) return std::optional<pipeline::Reused>();
  for (const pipeline::DoneBefore& done : pipeline::doneBefore(store_, id_, part, key)) {
    const auto place = readPlace(store_.paths(done.run));
    const bool same = place && *place && (*place)->name_space == place_.name_space &&
                      (*place)->context == place_.context && (*place)->claim == place_.claim;
    if (!same) continue;
    const auto answer = call({"take-over", (*place)->root(), part, folder, done.digest});
    if (!answer) return answer.error();
    if (answer->value("taken", false)) {
      return std::optional(pipeline::Reused{done.digest, done.origin});
    }
  }
  return std::optional<pipeline::Reused>();
}

Result<std::vector<pipeline::OutputTree::File>> ClusterVolume::list() {
  const auto answer = call({"list"});
  if (!answer) return answer.error();
  std::vector<pipeline::OutputTree::File> files;
  for (const json& file : answer->value("files", json::array())) {
    files.push_back({.name = file.value("path", ""),
                     .bytes = file.value("bytes", std::int64_t{0}),
                     .changed = file.value("changed", std::int64_t{0})});
  }
  return files;
}

Status ClusterVolume::fetch(const std::string& path, bundle::FileReceiver& files) {
  if (auto found = findPod(); !found) return found;
  const fs::path whole = (fs::path(tree_.volume()) / path).lexically_normal();
  const auto sent = runAgent(client_,
                             {.name_space = place_.name_space,
                              .pod = pod_->name(),
                              .container = HelperPod::kContainer,
                              .command = {"send", whole.string()},
                              .input = nullptr},
                             [&](std::string_view bytes) { return files.take(bytes); });
  return sent ? files.finish() : sent;
}

Status ClusterVolume::remove() {
  const auto claim = client_.get(claimAddress());
  if (!claim && claim.error().code() == Code::kNotFound) return {};
  if (!claim) return claim.error();
  const auto answer = call({"remove"});
  if (!answer) return answer.error();
  pod_.reset();
  if (!isOurs(*claim) || answer->value("others", true)) return {};
  return client_.remove(claimAddress(),
                        {.uid = claim->at("metadata").at("uid").get<std::string>()});
}

Result<json> serveVolume(const std::string& root, const std::vector<std::string>& words) {
  pipeline::OutputTree tree(root);
  const auto is = [&](const char* verb, std::size_t count) {
    return !words.empty() && words[0] == verb && words.size() == 1 + count;
  };
  const auto done = [](Status status) -> Result<json> {
    if (!status) return std::move(status).error();
    return json::object();
  };
  if (is("prepare", 1)) return done(tree.prepare(words[1], false));
  if (is("go-on", 1)) return done(tree.prepare(words[1], true));
  if (is("has", 1)) return json{{"there", tree.has(words[1])}};
  if (is("report", 2)) return done(tree.report(words[1], words[2]));
  if (is("publish", 1)) {
    auto digest = tree.publish(words[1]);
    if (!digest) return std::move(digest).error();
    return json{{"digest", *digest}};
  }
  if (is("take-over", 4)) {
    auto taken = tree.takeOver(pipeline::OutputTree(words[1]), words[2], words[3], words[4]);
    if (!taken && taken.error().code() != Code::kNotFound) return std::move(taken).error();
    return json{{"taken", static_cast<bool>(taken)}};
  }
  if (is("list", 0)) {
    json files = json::array();
    for (const pipeline::OutputTree::File& file : tree.list()) {
      files.push_back(
          {{"path", toValidUtf8(file.name)}, {"bytes", file.bytes}, {"changed", file.changed}});
    }
    return json{{"files", files}};
  }
  if (is("remove", 0)) {
    if (auto removed = removeTree(root); !removed) return std::move(removed).error();
    std::error_code error;
    bool others = false;
    for (fs::directory_iterator it(fs::path(root).parent_path(), error), end; !error && it != end;
         it.increment(error)) {
      others = others || it->path().filename() != "lost+found";
    }
    return json{{"others", others || static_cast<bool>(error)}};
  }
  return Error(Code::kInvalid, "no such thing can be done on a volume");
}

}  // namespace dure::kubernetes
