#include "backend/kubernetes/record.h"

#include <algorithm>
#include <map>

#include <fmt/core.h>
#include <boost/asio/post.hpp>

#include "base/process.h"
#include "base/text.h"
#include "kube/base64.h"

namespace dure::kubernetes {
namespace {

using nlohmann::json;

constexpr int kKeysOfAPart = 2'000;
// Of the 1 MiB that an object may have: JSON within JSON grows by its quotes.
constexpr std::size_t kBytesOfAPart = 400u << 10u;
// What an API server that is being restarted refuses, it grants a little later.
constexpr auto kDenied = std::chrono::minutes(1);
// An object may have 1 MiB; base64 makes four bytes of three.
constexpr std::size_t kFolderPiece = 700u << 10u;
constexpr const char* kFolderKey = "folder.tar.gz";
constexpr auto kRetry = std::chrono::milliseconds(500);

kube::KubeAddress address(const KubeRun& run, const std::string& name) {
  return {kube::kinds::kConfigMaps, run.name_space, name, ""};
}

std::string textAt(const json& object, const char* group, const char* name) {
  const json metadata = object.value("metadata", json::object());
  return metadata.value(group, json::object()).value(name, "");
}

std::optional<KubeRun> runOf(const json& object, const std::string& name_space) {
  const std::string job = textAt(object, "labels", labels::kJob);
  const std::string number = textAt(object, "labels", labels::kRun);
  const int parsed = std::atoi(number.c_str());
  if (job.empty() || parsed <= 0) return std::nullopt;
  return KubeRun{.name_space = name_space, .job = job, .number = parsed};
}

// By their names, which end in numbers.
void sortParts(std::vector<json>& parts) {
  const auto number = [](const json& object) {
    const std::string name = object.at("metadata").at("name");
    return std::atoi(name.c_str() + name.rfind('-') + 1);
  };
  std::sort(parts.begin(), parts.end(),
            [&](const json& a, const json& b) { return number(a) < number(b); });
}

Result<std::vector<json>> partsOf(kube::KubeClient& client, const KubeRun& run, const char* part) {
  auto objects = client.listAll(address(run, ""), {.labels = selectorOf(run, part)});
  if (objects) sortParts(*objects);
  return objects;
}

json configMap(const KubeRun& run, const std::string& name, const char* part, const json& owner) {
  json object = {
      {"apiVersion", "v1"},
      {"kind", "ConfigMap"},
      {"metadata",
       {{"name", name}, {"namespace", run.name_space}, {"labels", labelsOf(run, part)}}}};
  if (!owner.is_null()) object["metadata"]["ownerReferences"] = json::array({owner});
  return object;
}

}  // namespace

std::vector<gang::Entry> entriesOf(std::vector<json> parts) {
  sortParts(parts);
  std::vector<gang::Entry> entries;
  for (const json& part : parts) {
    // Keys are numbers of one length, so their order is that of the entries.
    const json data = part.value("data", json::object());
    for (const auto& [key, line] : data.items()) {
      const json parsed = json::parse(line.get<std::string>(), nullptr, false);
      if (parsed.is_discarded()) continue;
      if (auto entry = gang::entryFromJson(parsed)) entries.push_back(*std::move(entry));
    }
  }
  return entries;
}

Result<std::vector<KubeRecord>> listRecords(kube::KubeClient& client, const std::string& name_space,
                                            const std::string& job) {
  std::string selector = fmt::format("{}=record", labels::kPart);
  if (!job.empty()) selector += fmt::format(",{}={}", labels::kJob, job);
  auto objects =
      client.listAll({kube::kinds::kConfigMaps, name_space, "", ""}, {.labels = selector});
  if (!objects) return std::move(objects).error();
  std::vector<KubeRecord> records;
  for (json& object : *objects) {
    const auto run = runOf(object, name_space);
    if (!run) continue;
    records.push_back({.run = *run,
                       .object = object,
                       .job = object.value("data", json::object()).value(kJobKey, "")});
  }
  std::sort(records.begin(), records.end(), [](const KubeRecord& a, const KubeRecord& b) {
    const auto created = [](const KubeRecord& record) {
      return record.object["metadata"].value("creationTimestamp", "");
    };
    return std::tuple(created(a), a.run.job, a.run.number) <
           std::tuple(created(b), b.run.job, b.run.number);
  });
  return records;
}

Result<KubeRecord> readRecord(kube::KubeClient& client, const KubeRun& run) {
  auto object = client.get(address(run, run.object()));
  if (!object) return std::move(object).error();
  auto parts = partsOf(client, run, "journal");
  if (!parts) return std::move(parts).error();
  KubeRecord record{
      .run = run, .object = *std::move(object), .job = "", .entries = entriesOf(*parts)};
  record.job = record.object.value("data", json::object()).value(kJobKey, "");
  return record;
}

Result<KubeRun> findRun(kube::KubeClient& client, const std::string& name_space,
                        const std::string& text) {
  auto records = listRecords(client, name_space);
  if (!records) return std::move(records).error();
  const KubeRun* found = nullptr;
  for (const KubeRecord& record : *records) {
    if (record.run.text() == text) return record.run;
    if (record.run.job == text && (found == nullptr || record.run.number > found->number)) {
      found = &record.run;
    }
  }
  if (found != nullptr) return *found;
  std::vector<std::string> names;
  for (const KubeRecord& record : *records) names.push_back(record.run.text());
  return Error(Code::kNotFound,
               fmt::format("there is no run {} in namespace {}{}", text, name_space,
                           names.empty() ? "" : "; there are: " + join(names, ", ")));
}

Result<std::vector<std::string>> readMetrics(kube::KubeClient& client, const KubeRun& run) {
  auto object = client.get(address(run, run.metrics()));
  if (!object) {
    if (object.error().code() == Code::kNotFound) return std::vector<std::string>{};
    return std::move(object).error();
  }
  return metricsIn(*object);
}

std::vector<std::string> metricsIn(const json& object) {
  return split(object.value("data", json::object()).value("metrics.jsonl", ""), '\n');
}

std::vector<json> folderObjects(const KubeRun& run, const std::string& archive) {
  std::vector<json> objects;
  for (std::size_t at = 0; at < archive.size(); at += kFolderPiece) {
    json object = configMap(run, run.folder(static_cast<int>(objects.size())), "folder", nullptr);
    object["binaryData"][kFolderKey] =
        kube::toBase64(std::string_view(archive).substr(at, kFolderPiece));
    object["immutable"] = true;
    objects.push_back(std::move(object));
  }
  return objects;
}

Result<std::string> readFolder(kube::KubeClient& client, const KubeRun& run) {
  std::string archive;
  // One after the other: all at once would take several times as much memory.
  for (int number = 0;; ++number) {
    const auto part = client.get(address(run, run.folder(number)));
    if (!part && part.error().code() == Code::kNotFound) return archive;
    if (!part) return part.error();
    const auto piece =
        kube::fromBase64(part->value("binaryData", json::object()).value(kFolderKey, ""));
    if (!piece) return Error(Code::kInvalid, "the folder of the run is damaged");
    archive += *piece;
  }
}

KubeJournal::KubeJournal(asio::io_context& loop, kube::KubeClient& client, KubeRun run, json owner)
    : loop_(loop),
      client_(client),
      run_(std::move(run)),
      owner_(std::move(owner)),
      token_(randomToken()) {}

KubeJournal::~KubeJournal() = default;

Result<std::unique_ptr<KubeJournal>> KubeJournal::open(asio::io_context& loop,
                                                       kube::KubeClient& client, const KubeRun& run,
                                                       const json& owner) {
  std::unique_ptr<KubeJournal> journal(new KubeJournal(loop, client, run, owner));
  auto parts = partsOf(client, run, "journal");
  if (!parts) return std::move(parts).error();
  // Until all are closed that there are: somebody may have written until a moment ago, or begun a
  // new part.
  const auto is_open = [](const json& part) { return !part.value("immutable", false); };
  while (std::any_of(parts->begin(), parts->end(), is_open)) {
    for (const json& part : *parts) {
      if (!is_open(part)) continue;
      const std::string name = part.at("metadata").at("name");
      if (auto closed = client.patch(address(run, name), {{"immutable", true}}); !closed) {
        return std::move(closed).error();
      }
    }
    parts = partsOf(client, run, "journal");
    if (!parts) return std::move(parts).error();
  }
  journal->before_ = entriesOf(*parts);
  journal->part_ = static_cast<int>(parts->size());
  if (auto begun = journal->beginPart(); !begun) return std::move(begun).error();
  return journal;
}

Status KubeJournal::beginPart() {
  const std::string name = run_.journal(part_ + 1);
  json object = configMap(run_, name, "journal", owner_);
  object["metadata"]["annotations"] = {{annotations::kWriter, token_}};
  auto made = client_.create(address(run_, ""), object);
  if (!made && made.error().code() == Code::kExists) {
    // Ours, if it was the reply that got lost; else another manager's.
    const auto there = client_.get(address(run_, name));
    if (!there) return there.error();
    if (textAt(*there, "annotations", annotations::kWriter) == token_) made = *there;
  }
  if (!made) return std::move(made).error();
  ++part_;
  keys_ = 0;
  bytes_ = 0;
  return {};
}

Result<bool> KubeJournal::isOurs() const {
  const auto part = client_.get(address(run_, run_.journal(part_)));
  if (part) return !part->value("immutable", false);
  if (part.error().code() == Code::kNotFound) return false;
  return part.error();
}

void KubeJournal::append(const std::vector<gang::Entry>& entries,
                         std::function<void(const Status&)> written) {
  writer_ =
      std::jthread([this, entries, written = std::move(written)](const std::stop_token& stop) {
        const bool ends = std::any_of(entries.begin(), entries.end(), [](const gang::Entry& entry) {
          return entry.outcome.has_value();
        });
        if (ends && before_end_) before_end_();
        Status status = write(entries, stop);
        if (stop.stop_requested()) return;
        asio::post(loop_, [status = std::move(status), written] { written(status); });
      });
}

Status KubeJournal::write(const std::vector<gang::Entry>& entries, const std::stop_token& stop) {
  // What is written twice says the same, so whatever got lost on the way is simply sent again.
  const auto began = std::chrono::steady_clock::now();
  const auto passes = [&](const Error& error) {
    return error.code() == Code::kUnavailable || error.code() == Code::kConflict ||
           (error.code() == Code::kDenied && std::chrono::steady_clock::now() - began < kDenied);
  };
  const auto insist = [&](const std::function<Status()>& send) -> Status {
    while (true) {
      auto sent = send();
      if (sent || stop.stop_requested()) return sent;
      if (!passes(sent.error())) {
        lost_ = true;
        return sent;
      }
      std::this_thread::sleep_for(kRetry);
    }
  };
  std::vector<std::string> lines;
  std::size_t bytes = 0;
  for (const gang::Entry& entry : entries) {
    lines.push_back(gang::toJson(entry).dump());
    bytes += lines.back().size();
  }
  if (keys_ + std::ssize(entries) > kKeysOfAPart || (keys_ > 0 && bytes_ + bytes > kBytesOfAPart)) {
    if (auto begun = insist([this] { return beginPart(); }); !begun) return begun;
  }
  json data;
  for (std::string& line : lines) data[fmt::format("{:06}", keys_++)] = std::move(line);
  bytes_ += bytes;
  return insist([&]() -> Status {
    auto patched = client_.patch(address(run_, run_.journal(part_)), {{"data", data}});
    if (patched) return {};
    return std::move(patched).error().during("write the journal");
  });
}

}  // namespace dure::kubernetes
