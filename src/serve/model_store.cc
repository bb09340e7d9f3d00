#include "serve/model_store.h"

#include <sys/stat.h>

#include <algorithm>
#include <condition_variable>
#include <filesystem>

#include <fmt/core.h>

#include "base/files.h"

namespace dure::serve {
namespace {

namespace fs = std::filesystem;

// Tells one file from the next at the same place, and when it was written; nothing if there is
// none.
struct FileStamp {
  std::string text;
  TimePoint written;
  bool checkpoint = false;
};

std::optional<FileStamp> stampOf(const std::string& path) {
  struct stat about {};
  if (stat(path.c_str(), &about) != 0) return std::nullopt;
  const auto made = [](const struct stat& of) {
    return FileStamp{
        fmt::format("{}:{}:{}.{}", of.st_ino, of.st_size, of.st_mtim.tv_sec, of.st_mtim.tv_nsec),
        std::chrono::system_clock::from_time_t(of.st_mtim.tv_sec)};
  };
  if (!S_ISDIR(about.st_mode)) return made(about);
  // Of a directory of checkpoints: the newest whole one.
  std::string newest;
  for (const std::string& name : listDirectory(path)) {
    if (name.starts_with("step-") && !name.ends_with(".part")) newest = std::max(newest, name);
  }
  if (newest.empty() || stat((path + "/" + newest).c_str(), &about) != 0) return std::nullopt;
  FileStamp stamp = made(about);
  stamp.text += "/" + newest;
  stamp.checkpoint = true;
  return stamp;
}

}  // namespace

std::string modelNameOf(const std::string& path) {
  fs::path name = fs::path(path).lexically_normal();
  if (!name.has_filename()) name = name.parent_path();
  const std::string ending = name.extension();
  const bool known = ending == ".h5" || ending == ".pt" || ending == ".safetensors" ||
                     ending == ".keras" || ending == ".hdf5" || ending == ".pth";
  return known ? name.stem() : name.filename();
}

ModelStore::ModelStore(std::vector<Place> places, ModelLoader loader, Duration every, Say say)
    : loader_(std::move(loader)), every_(every), say_(std::move(say)) {
  for (Place& place : places) {
    Slot slot;
    slot.view.name = std::move(place.name);
    slot.view.path = std::move(place.path);
    slot.view.why = slot.view.path + " is not there yet";
    slots_.push_back(std::move(slot));
  }
  thread_ = std::jthread([this](const std::stop_token& stop) { watch(stop); });
}

ModelStore::~ModelStore() {
  thread_.request_stop();
  wake_.notify_all();
}

void ModelStore::watch(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    for (Slot& slot : slots_) {
      if (!stop.stop_requested()) look(slot);
    }
    std::unique_lock lock(mutex_);
    wake_.wait_for(lock, stop, every_, [] { return false; });
  }
}

void ModelStore::look(Slot& slot) {
  const std::string& name = slot.view.name;
  const std::string& path = slot.view.path;
  const auto stamp = stampOf(path);
  if (!stamp) {
    const std::lock_guard lock(mutex_);
    // A model that is loaded stays, whatever becomes of its file.
    if (slot.view.current == nullptr) slot.view.state = SlotState::kWaiting;
    slot.view.why = path + (slot.view.current == nullptr ? " is not there yet"
                                                         : " is gone; what it held is served");
    slot.tried.clear();
    return;
  }
  if (stamp->text == slot.tried) return;
  auto loaded = loader_(path);
  // A file that was written while it was read is read again. A checkpoint is whole and stays so: it
  // is taken up, and what has come meanwhile is looked at next.
  const auto after = stampOf(path);
  const bool changed = !after || after->text != stamp->text;
  if (changed && !(loaded && stamp->checkpoint)) return;
  slot.tried = stamp->text;
  const std::lock_guard lock(mutex_);
  if (!loaded) {
    const bool old = slot.view.current != nullptr;
    slot.view.state = old ? SlotState::kReady : SlotState::kFailed;
    slot.view.why = old ? "a newer file was not taken up: " + loaded.error().message()
                        : loaded.error().message();
    say_(name + ": " + slot.view.why);
    return;
  }
  const std::int64_t version = slot.view.current == nullptr ? 1 : slot.view.current->version + 1;
  slot.view.current =
      std::make_shared<const LoadedModel>(LoadedModel{.name = name,
                                                      .version = version,
                                                      .loaded = std::chrono::system_clock::now(),
                                                      .date = formatTime(stamp->written),
                                                      .model = *std::move(loaded)});
  slot.view.state = SlotState::kReady;
  slot.view.why.clear();
  say_(fmt::format("{}: version {} from {}", name, version, path));
}

std::shared_ptr<const LoadedModel> ModelStore::find(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  for (const Slot& slot : slots_) {
    if (slot.view.name == name) return slot.view.current;
  }
  return nullptr;
}

std::optional<SlotView> ModelStore::view(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  for (const Slot& slot : slots_) {
    if (slot.view.name == name) return slot.view;
  }
  return std::nullopt;
}

std::vector<SlotView> ModelStore::views() const {
  const std::lock_guard lock(mutex_);
  std::vector<SlotView> all;
  for (const Slot& slot : slots_) all.push_back(slot.view);
  return all;
}

bool ModelStore::ready() const {
  const std::lock_guard lock(mutex_);
  return std::all_of(slots_.begin(), slots_.end(),
                     [](const Slot& slot) { return slot.view.current != nullptr; });
}

}  // namespace dure::serve
