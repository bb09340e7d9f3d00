#include "train/checkpoint_store.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cstdio>
#include <thread>

#include "base/fd.h"
#include "base/process.h"

namespace dure {
namespace {

constexpr const char* kPart = ".part";
constexpr const char* kSeal = ".seal";
constexpr const char* kFailed = ".failed";
// What is written of the current training, twice.
constexpr const char* kCurrent[] = {"/current.json", "/current.copy.json"};
constexpr std::chrono::milliseconds kTryAgain{50};
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

// JSON that tells by itself whether it is as it was written.
std::string withChecksum(const char* name, const nlohmann::json& content, int indent) {
  const nlohmann::json outer = {{name, content}, {"checksum", checksumOf(content.dump())}};
  return outer.dump(indent) + "\n";
}

Result<nlohmann::json> readWithChecksum(const char* name, const std::string& path) {
  const auto text = readFile(path, kMaxManifest);
  if (!text) return text.error();
  const nlohmann::json outer = parse(*text);
  if (!outer.is_object() || !outer.contains(name) || !outer.contains("checksum")) {
    return Error(Code::kInvalid, fmt::format("the {} is damaged", name));
  }
  if (outer["checksum"] != checksumOf(outer[name].dump()))
    return Error(Code::kInvalid, fmt::format("the {}'s checksum is wrong", name));
  return outer[name];
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

Result<std::optional<FileLock>> CheckpointStore::lock(Duration patience) const {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (true) {
    auto lock = FileLock::acquire(directory_ + "/lock");
    if (lock) return std::optional(std::move(*lock));
    if (lock.error().code() != Code::kExists) return std::optional<FileLock>();
    // It may be of a process that was killed and has not ended yet.
    if (std::chrono::steady_clock::now() >= deadline) return std::move(lock).error();
    std::this_thread::sleep_for(kTryAgain);
  }
}

// Null if nothing was ever begun here.
Result<nlohmann::json> CheckpointStore::readCurrent() const {
  std::string why;
  for (const char* name : kCurrent) {
    auto current = readWithChecksum("current", directory_ + name);
    if (current && current->is_object()) return current;
    if (why.empty() && !current) why = current.error().message();
  }
  if (stepsIn(directory_).empty()) return nlohmann::json();
  return Error(
      Code::kInvalid,
      fmt::format("{} does not say any more which training its checkpoints belong to ({}); "
                  "remove it to begin anew",
                  directory_, why));
}

Status CheckpointStore::writeCurrent(bool finished, const std::string& run) const {
  const nlohmann::json current = {{"training", training_}, {"finished", finished}, {"run", run}};
  for (const char* name : kCurrent) {
    auto written = replaceFile(directory_ + name, withChecksum("current", current, -1));
    if (!written) return written;
  }
  return {};
}

Result<CheckpointStore::Manifest> CheckpointStore::verify(const std::string& directory,
                                                          const std::string& training) const try {
  const auto read = readWithChecksum("manifest", directory + "/manifest.json");
  if (!read) return read.error();
  const nlohmann::json& inner = *read;
  Manifest manifest;
  manifest.step = inner.value("step", std::int64_t{0});
  manifest.world = inner.value("world", 1);
  manifest.about = inner.value("about", nlohmann::json::object());
  manifest.state = inner.value("state", nlohmann::json::object());
  if (inner.value("training", "") != training) {
    return Error(Code::kUnavailable, "it belongs to another training");
  }
  for (const auto& [name, file] : inner["files"].items()) {
    const auto seal = sealOf(directory + "/" + name, false);
    if (!seal) return seal.error();
    if (*seal !=
        Seal{file.value("bytes", std::uint64_t{0}), file.value("checksum", std::uint32_t{0})}) {
      return Error(Code::kInvalid,
                   fmt::format("{} is not what was written: its size or checksum is wrong", name));
    }
    manifest.files.push_back(name);
  }
  return manifest;
} catch (const nlohmann::json::exception&) {
  return Error(Code::kInvalid, "the manifest does not say what it should");
}

Result<CheckpointStore::Search> CheckpointStore::findNewest() const try {
  Search search;
  const auto now = readCurrent();
  if (!now) return now.error();
  if (now->is_null()) return search;
  search.training = now->value("training", "");
  search.finished = now->value("finished", false);
  search.run = now->value("run", "");
  for (const std::int64_t step : stepsIn(directory_)) {
    const std::string path = pathOf(step);
    auto manifest = verify(path, search.training);
    if (manifest) {
      search.found = Found{path, std::move(*manifest)};
      return search;
    }
    if (manifest.error().code() == Code::kUnavailable) continue;
    search.passed_over.push_back(fmt::format("{}: {}", path, manifest.error().message()));
  }
  return search;
} catch (const nlohmann::json::exception&) {
  return Error(Code::kInvalid, directory_ + "/current.json does not say what it should");
}

Status CheckpointStore::begin(const std::string& run) {
  training_ = randomToken();
  return writeCurrent(false, run);
}

Status CheckpointStore::goOn(const Search& search) {
  training_ = search.training;
  for (const std::int64_t step : stepsIn(directory_)) {
    if (step <= search.found->manifest.step) break;
    if (auto removed = removeTree(pathOf(step)); !removed) return removed;
  }
  return {};
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

void CheckpointStore::markFailed(const std::string& staged, const std::string& file) {
  (void)replaceFile(staged + "/" + file + kFailed, "");
}

bool CheckpointStore::hasFailed(const std::string& staged, const std::string& file) {
  return fileExists(staged + "/" + file + kFailed);
}

Status CheckpointStore::publish(const Manifest& manifest) const {
  const std::string staged = pathOf(manifest.step) + kPart;
  nlohmann::json files = nlohmann::json::object();
  for (const std::string& name : manifest.files) {
    const auto text = readFile(staged + "/" + name + kSeal, kMaxManifest);
    if (!text) return text.error();
    files[name] = parse(*text);
  }
  const nlohmann::json inner = {{"step", manifest.step},   {"world", manifest.world},
                                {"about", manifest.about}, {"state", manifest.state},
                                {"files", files},          {"training", training_}};
  if (auto written = replaceFile(staged + "/manifest.json", withChecksum("manifest", inner, 1));
      !written) {
    return written;
  }
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
  int kept = 0;
  for (const std::int64_t step : stepsIn(directory_)) {
    const std::string path = pathOf(step);
    const auto manifest = readWithChecksum("manifest", path + "/manifest.json");
    const bool ours = manifest && manifest->is_object() && manifest->contains("training") &&
                      (*manifest)["training"] == training_;
    if (ours && kept++ < keep) continue;
    if (auto removed = removeTree(path); !removed) return removed;
  }
  return {};
}

Status CheckpointStore::finish(const std::string& run) const { return writeCurrent(true, run); }

}  // namespace dure
