#include "train/checkpoint_store.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "base/fd.h"
#include "base/files.h"
#include "base/process.h"

namespace dure {
namespace {

constexpr const char* kPart = ".part";
constexpr const char* kSeal = ".seal";
constexpr std::size_t kMaxManifest = 64u << 20;
constexpr std::size_t kPiece = 1u << 20;

struct Seal {
  std::uint64_t bytes = 0;
  std::uint32_t checksum = 0;
  bool operator==(const Seal&) const = default;
};

Result<Seal> sealOf(const std::string& path, bool sync) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return systemError(path);
  if (sync && fsync(file.get()) != 0) return systemError(path);
  Seal seal;
  std::vector<unsigned char> piece(kPiece);
  uLong checksum = crc32(0, nullptr, 0);
  while (true) {
    const ssize_t got = read(file.get(), piece.data(), piece.size());
    if (got < 0) return systemError(path);
    if (got == 0) break;
    checksum = crc32(checksum, piece.data(), static_cast<uInt>(got));
    seal.bytes += static_cast<std::uint64_t>(got);
  }
  seal.checksum = static_cast<std::uint32_t>(checksum);
  return seal;
}

std::uint32_t checksumOf(const std::string& text) {
  return static_cast<std::uint32_t>(crc32(0, reinterpret_cast<const unsigned char*>(text.data()),
                                          static_cast<uInt>(text.size())));
}

nlohmann::json parse(const std::string& text) {
  return nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
}

// The steps that have a name in the directory, newest first.
std::vector<std::int64_t> stepsIn(const std::string& directory) {
  std::vector<std::int64_t> steps;
  for (const std::string& name : listDirectory(directory)) {
    long long step = 0;
    int length = 0;
    if (std::sscanf(name.c_str(), "step-%lld%n", &step, &length) == 1 &&
        static_cast<std::size_t>(length) == name.size()) {
      steps.push_back(step);
    }
  }
  std::sort(steps.rbegin(), steps.rend());
  return steps;
}

}  // namespace

Result<CheckpointStore> CheckpointStore::open(const std::string& directory) {
  if (auto made = makeDirectories(directory); !made) {
    return std::move(made).error().during("checkpoint.path");
  }
  if (access(directory.c_str(), W_OK) != 0) {
    return systemError(directory).during("checkpoint.path");
  }
  return CheckpointStore(directory);
}

std::string CheckpointStore::pathOf(std::int64_t step) const {
  return fmt::format("{}/step-{:010}", directory_, step);
}

nlohmann::json CheckpointStore::current() const {
  const auto text = readFile(directory_ + "/current.json", kMaxManifest);
  nlohmann::json json = text ? parse(*text) : nlohmann::json();
  if (!json.is_object() || !json.contains("training") || !json["training"].is_string())
    return nullptr;
  return json;
}

Result<CheckpointStore::Manifest> CheckpointStore::verify(const std::string& directory) const try {
  const auto text = readFile(directory + "/manifest.json", kMaxManifest);
  if (!text) return text.error();
  const auto wrong = [](const std::string& what) { return Error(Code::kInvalid, what); };
  const nlohmann::json outer = parse(*text);
  if (!outer.is_object() || !outer.contains("manifest") || !outer.contains("checksum")) {
    return wrong("the manifest is damaged");
  }
  const nlohmann::json& inner = outer["manifest"];
  if (outer["checksum"] != checksumOf(inner.dump()))
    return wrong("the manifest's checksum is wrong");
  Manifest manifest;
  manifest.step = inner.value("step", std::int64_t{0});
  manifest.world = inner.value("world", 1);
  manifest.about = inner.value("about", nlohmann::json::object());
  manifest.state = inner.value("state", nlohmann::json::object());
  const nlohmann::json now = current();
  if (!now.is_object() || now["training"] != inner.value("training", "")) {
    return Error(Code::kUnavailable, "it belongs to another training");
  }
  for (const auto& [name, file] : inner["files"].items()) {
    const auto seal = sealOf(directory + "/" + name, false);
    if (!seal) return seal.error();
    if (*seal !=
        Seal{file.value("bytes", std::uint64_t{0}), file.value("checksum", std::uint32_t{0})}) {
      return wrong(fmt::format("{} is not what was written: its size or checksum is wrong", name));
    }
    manifest.files.push_back(name);
  }
  return manifest;
} catch (const nlohmann::json::exception&) {
  return Error(Code::kInvalid, "the manifest does not say what it should");
}

CheckpointStore::Search CheckpointStore::findNewest() const {
  Search search;
  const nlohmann::json now = current();
  if (!now.is_object()) return search;
  search.finished = now.value("finished", false);
  for (const std::int64_t step : stepsIn(directory_)) {
    const std::string path = pathOf(step);
    auto manifest = verify(path);
    if (manifest) {
      search.found = Found{path, std::move(*manifest)};
      return search;
    }
    if (manifest.error().code() == Code::kUnavailable) continue;
    search.passed_over.push_back(fmt::format("{}: {}", path, manifest.error().message()));
  }
  return search;
}

Status CheckpointStore::begin() {
  const nlohmann::json json = {{"training", randomToken()}, {"finished", false}};
  return replaceFile(directory_ + "/current.json", json.dump() + "\n");
}

Status CheckpointStore::clean() {
  for (const std::string& name : listDirectory(directory_)) {
    if (name.starts_with("step-") && name.ends_with(kPart)) {
      if (auto removed = removeTree(directory_ + "/" + name); !removed) return removed;
    }
  }
  return {};
}

Result<std::string> CheckpointStore::stage(std::int64_t step) const {
  const std::string path = pathOf(step) + kPart;
  if (auto made = makeDirectories(path); !made) return std::move(made).error();
  return path;
}

Status CheckpointStore::seal(const std::string& staged, const std::string& file) {
  auto seal = sealOf(staged + "/" + file, true);
  if (!seal) return std::move(seal).error();
  const nlohmann::json json = {{"bytes", seal->bytes}, {"checksum", seal->checksum}};
  return replaceFile(staged + "/" + file + kSeal, json.dump());
}

bool CheckpointStore::isSealed(const std::string& staged, const std::string& file) {
  return fileExists(staged + "/" + file + kSeal);
}

Status CheckpointStore::publish(const Manifest& manifest) const {
  const std::string staged = pathOf(manifest.step) + kPart;
  nlohmann::json files = nlohmann::json::object();
  for (const std::string& name : manifest.files) {
    const auto text = readFile(staged + "/" + name + kSeal, kMaxManifest);
    if (!text) return text.error();
    files[name] = parse(*text);
  }
  const nlohmann::json now = current();
  const nlohmann::json inner = {{"step", manifest.step},   {"world", manifest.world},
                                {"about", manifest.about}, {"state", manifest.state},
                                {"files", files},          {"training", now["training"]}};
  const nlohmann::json outer = {{"manifest", inner}, {"checksum", checksumOf(inner.dump())}};
  if (auto written = replaceFile(staged + "/manifest.json", outer.dump(1) + "\n"); !written)
    return written;
  for (const std::string& name : manifest.files) unlink((staged + "/" + name + kSeal).c_str());
  if (auto synced = syncDirectory(staged); !synced) return synced;
  // One of the same step is there if this training passed here before, or another one did.
  const std::string path = pathOf(manifest.step);
  if (auto removed = removeTree(path); !removed) return removed;
  if (rename(staged.c_str(), path.c_str()) != 0) return systemError(path);
  return syncDirectory(directory_);
}

void CheckpointStore::discard(std::int64_t step) const { (void)removeTree(pathOf(step) + kPart); }

Status CheckpointStore::prune(int keep) const {
  const nlohmann::json now = current();
  int kept = 0;
  for (const std::int64_t step : stepsIn(directory_)) {
    const std::string path = pathOf(step);
    const auto text = readFile(path + "/manifest.json", kMaxManifest);
    const nlohmann::json outer = text ? parse(*text) : nlohmann::json();
    const bool ours = outer.is_object() && outer.contains("manifest") && now.is_object() &&
                      outer["manifest"].value("training", "") == now["training"];
    if (ours && kept++ < keep) continue;
    if (auto removed = removeTree(path); !removed) return removed;
  }
  return {};
}

Status CheckpointStore::finish() const {
  nlohmann::json json = current();
  json["finished"] = true;
  return replaceFile(directory_ + "/current.json", json.dump() + "\n");
}

}  // namespace dure
