#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "serve/model.h"

namespace dure::serve {

// A model as requests use it. Whoever holds it goes on with it, although a newer one may have taken
// its place.
struct LoadedModel {
  std::string name;
  std::int64_t version = 0;  // 1 for the first file, one more for each that took its place
  TimePoint loaded;
  std::string date;  // when the file was written
  std::shared_ptr<const Model> model;
};

enum class SlotState { kWaiting, kReady, kFailed };

// One of the models that are served, as it stands now.
struct SlotView {
  std::string name;
  std::string path;
  SlotState state = SlotState::kWaiting;
  std::string why;  // when not ready, or why a newer file was not taken up
  std::shared_ptr<const LoadedModel>
      current;  // shared with the requests that it answers; may be null
};

// The files of models: loads each as soon as it is there, and again when it is replaced. Of a
// directory of checkpoints, one that is older by the time it is loaded is taken up all the same. A
// file that cannot be loaded leaves the model that was there. Members may be called from several
// threads.
class ModelStore {
 public:
  struct Place {
    std::string name;
    std::string path;
  };
  using Say = std::function<void(const std::string& sentence)>;

  // Begins to look, in a thread of its own, every `every`; `say` is told what happens.
  ModelStore(std::vector<Place> places, ModelLoader loader, Duration every, Say say);
  ModelStore(const ModelStore&) = delete;
  ~ModelStore();

  std::shared_ptr<const LoadedModel> find(const std::string& name) const;
  std::optional<SlotView> view(const std::string& name) const;
  std::vector<SlotView> views() const;
  // True if every model is there.
  bool ready() const;

 private:
  struct Slot {
    SlotView view;
    std::string tried;  // the stamp of the file that was loaded, or could not be
  };

  void watch(const std::stop_token& stop);
  void look(Slot& slot);

  const ModelLoader loader_;
  const Duration every_;
  const Say say_;
  mutable std::mutex mutex_;  // guards the views of the slots; the thread alone changes them
  std::vector<Slot> slots_;
  std::condition_variable_any wake_;
  std::jthread thread_;  // last: it uses all of the above
};

// The name that a model has by its file: without folders and ending.
std::string modelNameOf(const std::string& path);

}  // namespace dure::serve
