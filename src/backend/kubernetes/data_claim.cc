#include "backend/kubernetes/data_claim.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include <fmt/core.h>

#include "backend/kubernetes/helper_pod.h"
#include "backend/kubernetes/manifest_parts.h"
#include "backend/kubernetes/objects.h"
#include "base/files.h"
#include "base/sha256.h"
#include "base/text.h"

namespace dure::kubernetes {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// Beside a file of reviews, as numbers: which word is which.
constexpr const char* kWordIndex = "word_index.json";
constexpr const char* kMountPoint = "/dure-data";
// Of the claim beyond the data: a file system needs some for itself.
constexpr std::int64_t kRoom = std::int64_t{64} << 20;

Result<std::string> hashOf(const std::string& path) {
  const Fd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return systemError(path);
  Sha256 hash;
  std::string piece(std::size_t{1} << 20u, '\0');
  while (true) {
    const ssize_t got = read(file.get(), piece.data(), piece.size());
    if (got < 0) return systemError(path);
    if (got == 0) return hash.takeHex();
    hash.add(std::string_view(piece).substr(0, static_cast<std::size_t>(got)));
  }
}

// Links to files are followed, since data sets are often made of them.
Result<std::vector<bundle::NamedFile>> listFiles(const LocalData& data) {
  std::error_code error;
  const fs::path root = fs::canonical(data.here, error);
  if (error) return Error(Code::kIo, data.here + ": " + error.message());
  std::vector<bundle::NamedFile> files;
  if (fs::is_regular_file(root)) {
    files.push_back({root, fs::path(data.here).filename()});
    const fs::path words = fs::path(data.here).parent_path() / kWordIndex;
    if (data.field == "train.data.path" && fs::is_regular_file(words, error)) {
      files.push_back({fs::canonical(words, error), kWordIndex});
    }
    return files;
  }
  for (fs::recursive_directory_iterator it(root, error), end; !error && it != end;
       it.increment(error)) {
    if (it->is_regular_file(error)) {
      files.push_back({fs::canonical(it->path(), error), it->path().lexically_relative(root)});
    } else if (it->is_symlink(error)) {
      return Error(Code::kInvalid,
                   fmt::format("{}: {} is a link that leads to no file; data with such links "
                               "belongs on a volume",
                               data.field, it->path().string()));
    }
  }
  if (error) return Error(Code::kIo, data.here + ": " + error.message());
  std::sort(files.begin(), files.end(),
            [](const bundle::NamedFile& a, const bundle::NamedFile& b) { return a.name < b.name; });
  return files;
}

Error tooMuch(const spec::Job& job, const LocalData& data, std::int64_t bytes) {
  return Error(Code::kInvalid,
               fmt::format("{}: {} has {}, more than the {} that are sent along "
                           "(kubernetes.storage.data_limit); put it on a claim that pods can "
                           "mount, such as volumes: [{{path: {}, claim: NAME}}]",
                           data.field, data.here, formatBytes(bytes),
                           formatBytes(job.kubernetes.storage.data_limit), data.path));
}

class DataClaim {
 public:
  DataClaim(kube::KubeClient& client, const spec::Job& job, const DataContent& content,
            const Sending& sending, const Wait& wait)
      : client_(client),
        job_(job),
        content_(content),
        sending_(sending),
        wait_(wait),
        access_mode_(dataAccessModeOf(job)),
        name_(fmt::format("dure-data-{}{}", content.hash.substr(0, 16),
                          access_mode_ == "ReadWriteMany" ? "-many" : "")) {}

  Result<std::string> bring() {
    auto claim = client_.get(address());
    if (!claim && claim.error().code() != Code::kNotFound) return std::move(claim).error();
    if (claim && isComplete(*claim)) return name_;
    const bool ours = !claim;
    if (ours) claim = client_.create(address(), object());
    // Somebody else sends the same: the quicker one wins.
    if (!claim && claim.error().code() == Code::kExists) claim = client_.get(address());
    if (!claim) return std::move(claim).error();
    const auto filled = fill(*claim);
    if (filled) return name_;
    const auto now = client_.get(address());
    if (now && isComplete(*now)) return name_;
    if (ours) {
      static_cast<void>(
          client_.remove(address(), {.uid = claim->at("metadata").at("uid").get<std::string>()}));
    }
    return filled.error();
  }

 private:
  kube::KubeAddress address() const {
    return {kube::kinds::kClaims, client_.access().name_space, name_, ""};
  }

  static bool isComplete(const json& claim) {
    const json& metadata = claim.at("metadata");
    return !metadata.contains("deletionTimestamp") &&
           metadata.value("annotations", json::object()).contains(annotations::kComplete);
  }

  json labels() const {
    return {{labels::kManagedBy, plan::kManagedByDure}, {labels::kPart, "data"}};
  }

  json object() const {
    json claim = claimOf(name_, access_mode_, content_.bytes + content_.bytes / 8 + kRoom,
                         job_.kubernetes.storage.storage_class);
    claim["metadata"]["labels"] = labels();
    return claim;
  }

  Status fill(const json& claim) {
    HelperPod pod(client_, client_.access().name_space, job_);
    auto started = pod.start(
        {.name = name_ + "-fill",
         .labels = labels(),
         .owner = ownerReference(claim),
         .volumes =
             json::array({{{"name", "data"}, {"persistentVolumeClaim", {{"claimName", name_}}}}}),
         .mounts = json::array({{{"name", "data"}, {"mountPath", kMountPoint}}}),
         .purpose = "takes in the data"},
        wait_);
    if (!started) return started;
    std::int64_t sent = 0;
    const auto feed = [&](const kube::ExecRequest::Write& write) {
      return bundle::sendFiles(content_.files, [&](std::string_view bytes) -> Status {
        if (wait_.isOver()) return Error(Code::kUnavailable, "interrupted");
        sent += std::ssize(bytes);
        if (sending_) sending_(std::min(sent, content_.bytes), content_.bytes);
        return write(bytes);
      });
    };
    auto taken = runAgent(client_,
                          {.name_space = client_.access().name_space,
                           .pod = pod.name(),
                           .container = HelperPod::kContainer,
                           .command = {"receive", fmt::format("{}/{}", kMountPoint, kDataFolder)},
                           .input = feed},
                          [](std::string_view) { return Status{}; });
    if (!taken) return taken;
    const auto marked = client_.patch(
        address(), {{"metadata", {{"annotations", {{annotations::kComplete, "true"}}}}}});
    return marked ? Status{} : marked.error();
  }

  kube::KubeClient& client_;
  const spec::Job& job_;
  const DataContent& content_;
  const Sending& sending_;
  const Wait& wait_;
  const std::string access_mode_;
  const std::string name_;
};

}  // namespace

Result<DataContent> contentOf(const LocalData& data, std::int64_t limit) {
  auto files = listFiles(data);
  if (!files) return std::move(files).error();
  DataContent content{.files = *std::move(files), .bytes = 0, .hash = ""};
  for (const bundle::NamedFile& file : content.files) {
    std::error_code error;
    content.bytes += static_cast<std::int64_t>(fs::file_size(file.path, error));
    if (error) return Error(Code::kIo, file.path + ": " + error.message());
  }
  if (content.bytes > limit) return content;
  Sha256 all;
  for (const bundle::NamedFile& file : content.files) {
    const auto hash = hashOf(file.path);
    if (!hash) return hash.error();
    all.add(fmt::format("{} {}\n", *hash, file.name));
  }
  content.hash = all.takeHex();
  return content;
}

Result<std::string> bringData(kube::KubeClient& client, const spec::Job& job, const LocalData& data,
                              const Sending& sending, const Wait& wait) {
  const auto content = contentOf(data, job.kubernetes.storage.data_limit);
  if (!content) return content.error();
  if (content->hash.empty()) return tooMuch(job, data, content->bytes);
  auto claim = DataClaim(client, job, *content, sending, wait).bring();
  if (!claim) return std::move(claim).error().during("send " + data.here);
  return claim;
}

}  // namespace dure::kubernetes
