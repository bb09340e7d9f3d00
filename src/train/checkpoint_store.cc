#include "train/checkpoint_store.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <thread>

#include "base/process.h"

namespace dure::train {
namespace {

constexpr const char* kPart = ".part";
constexpr const char* kSeal = ".seal";
constexpr const char* kFailed = ".failed";
// What is written of the current training, twice.
constexpr const char* kCurrent[] = {"current.json", "current.copy.json"};
constexpr std::chrono::milliseconds kTryAgain{50};
constexpr std::size_t kMaxSeal = 4096;

// listDirectory would take one that cannot be read for an empty one.
Result<std::vector<std::string>> namesIn(const std::string& directory) {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator it(directory, error), end; !error && it != end;
       it.increment(error)) {
    names.push_back(it->path().filename().string());
  }
  if (!error) return names;
  errno = error.value();
  return systemError(directory);
}

// The steps that have a name in the directory, newest first.
Result<std::vector<std::int64_t>> stepsIn(const std::string& directory) {
  const auto names = namesIn(directory);
  if (!names) return names.error();
  std::vector<std::int64_t> steps;
  for (const std::string& name : *names) {
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

Result<CheckpointStore> CheckpointStore::open(const std::string& directory, CheckpointOwner owner) {
  auto made = makeDirectories(directory);
  if (made && access(directory.c_str(), W_OK | X_OK) != 0) made = systemError(directory);
  if (made) return CheckpointStore(directory, std::move(owner));
  // What is not allowed now will not be later.
  const Code code = made.error().code() == Code::kDenied ? Code::kInvalid : made.error().code();
  return Error(code, "checkpoint.path: " + made.error().message());
}

std::string CheckpointStore::pathOf(std::int64_t step) const {
  return fmt::format("{}/step-{:010}", directory_, step);
}

// What no other gang writes to.
std::string CheckpointStore::partOf(const std::string& path) const {
  return fmt::format("{}.{}-{}{}", path, owner_.generation, owner_.token, kPart);
}

Result<std::optional<FileLock>> CheckpointStore::lock(Duration patience) const {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (true) {
    auto lock = FileLock::acquire(directory_ + "/lock");
    if (lock) return std::optional(std::move(*lock));
    const Code code = lock.error().code();
    if (code == Code::kUnavailable) return std::optional<FileLock>();
    if (code == Code::kDenied) return Error(Code::kInvalid, lock.error().message());
    if (code != Code::kExists) return std::move(lock).error();
    // It may be of a process that was killed and has not ended yet.
    if (std::chrono::steady_clock::now() >= deadline) return std::move(lock).error();
    std::this_thread::sleep_for(kTryAgain);
  }
}

// Null if nothing was ever begun here.
Result<nlohmann::json> CheckpointStore::readCurrent() const {
  std::string why;
  for (const char* name : kCurrent) {
    auto current = readWithChecksum("current", directory_ + "/" + name);
    if (current && current->is_object()) return current;
    // The other one may be older.
    if (!current && !isDamage(current.error())) return current;
    if (why.empty() && !current) why = current.error().message();
  }
  const auto steps = stepsIn(directory_);
  if (!steps) return steps.error();
  if (steps->empty()) return nlohmann::json::object();
  return Error(
      Code::kInvalid,
      fmt::format("{} does not say any more which training its checkpoints belong to ({}); "
                  "remove it to begin anew",
                  directory_, why));
}

Status CheckpointStore::writeCurrent(bool finished) const {
  const nlohmann::json current = {
      {"training", training_},   {"finished", finished},  {"run", owner_.run},
      {"run_id", owner_.run_id}, {"token", owner_.token}, {"generation", owner_.generation},
  };
  for (const char* name : kCurrent) {
    auto written = replaceFile(directory_ + "/" + name, withChecksum("current", current, -1));
    if (!written) return written;
  }
  return {};
}

Result<bool> CheckpointStore::isOfOlderGeneration() const try {
  const auto now = readCurrent();
  if (!now) return now.error();
  return owner_.isSameRun(now->value("run_id", "")) &&
         now->value("generation", 0) < owner_.generation;
} catch (const nlohmann::json::exception&) {
  return false;
}

Status CheckpointStore::checkTaken() const try {
  const auto now = readCurrent();
  if (!now) return now.error();
  if (now->value("token", "") == owner_.token) return {};
  if (owner_.isSameRun(now->value("run_id", ""))) {
    return Error(Code::kConflict, fmt::format("generation {} of this run writes to {} now",
                                              now->value("generation", 0), directory_));
  }
  return Error(Code::kExists, fmt::format("another run writes to {} now ({}); give another path",
                                          directory_, now->value("run", "")));
} catch (const nlohmann::json::exception&) {
  return Error(Code::kConflict, directory_ + " does not say who writes there");
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
    return Error(Code::kConflict, "it belongs to another training");
  }
  for (const auto& [name, file] : inner["files"].items()) {
    const auto seal = readSeal(directory + "/" + name);
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
  if (now->empty()) return search;
  search.training = now->value("training", "");
  search.finished = now->value("finished", false);
  search.run = now->value("run", "");
  search.run_id = now->value("run_id", "");
  search.generation = now->value("generation", 0);
  const auto steps = stepsIn(directory_);
  if (!steps) return steps.error();
  for (const std::int64_t step : *steps) {
    const std::string path = pathOf(step);
    auto manifest = verify(path, search.training);
    if (manifest) {
      search.found = Found{path, std::move(*manifest)};
      return search;
    }
    const Error& why = manifest.error();
    if (isDamage(why)) {
      search.passed_over.push_back(fmt::format("{}: {}", path, why.message()));
    } else if (why.code() != Code::kConflict) {
      return Error(why).during("a checkpoint cannot be read now, and none was removed");
    }
    search.superseded.push_back(path);
  }
  return search;
} catch (const nlohmann::json::exception&) {
  return Error(Code::kInvalid, directory_ + "/current.json does not say what it should");
}

Status CheckpointStore::begin() {
  training_ = randomToken();
  return writeCurrent(false);
}

Status CheckpointStore::resume(const Search& search) {
  training_ = search.training;
  if (auto taken = writeCurrent(search.finished); !taken) return taken;
  for (const std::string& path : search.superseded) {
    if (auto removed = retire(path); !removed) return removed;
  }
  return {};
}

Status CheckpointStore::clean() const {
  const auto names = namesIn(directory_);
  if (!names) return names.error();
  for (const std::string& name : *names) {
    const bool part = name.starts_with("step-") && name.ends_with(kPart);
    const bool note = name.starts_with("current.") && name.ends_with(".tmp");
    if (!part && !note) continue;
    if (auto removed = removeTree(directory_ + "/" + name); !removed) return removed;
  }
  return {};
}

Result<std::string> CheckpointStore::stage(std::int64_t step) const {
  const std::string path = partOf(pathOf(step));
  if (auto made = makeDirectories(path); !made) return std::move(made).error();
  return path;
}

Status CheckpointStore::write(const std::string& staged, const std::string& file,
                              const std::function<Status(const Sink& sink)>& content) {
  const auto seal = writeSealed(staged + "/" + file, content);
  if (!seal) return seal.error();
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
  const std::string path = pathOf(manifest.step);
  const std::string staged = partOf(path);
  nlohmann::json files = nlohmann::json::object();
  for (const std::string& name : manifest.files) {
    const auto text = readFile(staged + "/" + name + kSeal, kMaxSeal);
    if (!text) return text.error();
    files[name] = nlohmann::json::parse(*text, nullptr, /*allow_exceptions=*/false);
  }
  const nlohmann::json inner = {
      {"step", manifest.step},   {"world", manifest.world}, {"about", manifest.about},
      {"state", manifest.state}, {"files", files},          {"training", training_},
      {"run", owner_.run},       {"run_id", owner_.run_id}, {"generation", owner_.generation}};
  if (auto written = replaceFile(staged + "/manifest.json", withChecksum("manifest", inner, 1));
      !written) {
    return written;
  }
  for (const std::string& name : manifest.files) unlink((staged + "/" + name + kSeal).c_str());
  if (auto synced = syncDirectory(staged); !synced) return synced;
  if (auto taken = checkTaken(); !taken) return taken;
  // One of the same step is there if this training passed here before, or another one did.
  const std::string before = partOf(path + ".before");
  if (rename(path.c_str(), before.c_str()) != 0 && errno != ENOENT) return systemError(path);
  if (rename(staged.c_str(), path.c_str()) != 0) return systemError(path);
  if (auto synced = syncDirectory(directory_); !synced) return synced;
  return removeTree(before);
}

void CheckpointStore::discard(std::int64_t step) const { (void)removeTree(partOf(pathOf(step))); }

// Out of sight at once, so that no half of it is taken for a damaged one.
Status CheckpointStore::retire(const std::string& path) const {
  const std::string part = partOf(path);
  if (rename(path.c_str(), part.c_str()) != 0) {
    if (errno == ENOENT) return {};
    return systemError("remove " + path);
  }
  return removeTree(part);
}

Status CheckpointStore::prune(int keep) const {
  if (auto taken = checkTaken(); !taken) return taken;
  const auto steps = stepsIn(directory_);
  if (!steps) return steps.error();
  int kept = 0;
  for (const std::int64_t step : *steps) {
    const auto manifest = readWithChecksum("manifest", pathOf(step) + "/manifest.json");
    if (!manifest && !isDamage(manifest.error())) continue;
    const bool ours = manifest && manifest->is_object() && manifest->contains("training") &&
                      (*manifest)["training"] == training_;
    if (ours && kept++ < keep) continue;
    if (auto removed = retire(pathOf(step)); !removed) return removed;
  }
  return {};
}

Status CheckpointStore::finish() const {
  if (auto taken = checkTaken(); !taken) return taken;
  return writeCurrent(true);
}

}  // namespace dure::train
