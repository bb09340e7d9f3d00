#include "train/resume.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "base/text.h"
#include "spec/print.h"

namespace dure {
namespace {

constexpr const char* kModelFile = "model.safetensors";
constexpr const char* kStateFile = "state.safetensors";
// How many steps apart workers that write together ask the first one's clock.
constexpr std::int64_t kAskEvery = 16;

std::string rankFile(int rank) { return fmt::format("rank-{}.safetensors", rank); }

at::Tensor copyOf(const at::Tensor& tensor) {
  return tensor.detach().clone(at::MemoryFormat::Contiguous);
}

// The first line in which two texts differ, as the first has it.
std::string firstDifference(const std::string& a, const std::string& b) {
  const auto ours = split(a, '\n');
  const auto theirs = split(b, '\n');
  for (std::size_t i = 0; i < ours.size(); ++i) {
    if (i < theirs.size() && ours[i] == theirs[i]) continue;
    const auto trim = [](std::string line) { return line.erase(0, line.find_first_not_of(' ')); };
    return fmt::format("'{}' now, '{}' then", trim(ours[i]),
                       i < theirs.size() ? trim(theirs[i]) : "");
  }
  return "it was longer";
}

}  // namespace

Checkpoints::Checkpoints(const Job& job, const Surroundings& here, const TrainingData& data,
                         Network& network, FlatOptimizer& optimizer, Synchronizer& sync,
                         Group& group, Reporter& reporter)
    : job_(job),
      here_(here),
      data_(data),
      network_(network),
      optimizer_(optimizer),
      sync_(sync),
      group_(group),
      reporter_(reporter),
      last_time_(std::chrono::steady_clock::now()) {}

// What makes it this training and no other. How long it lasts does not, unless the learning rate
// depends on it.
nlohmann::json Checkpoints::about() const {
  Job same;
  same.name = "training";
  same.strategy = Strategy::kNative;
  same.train = job_.train;
  same.train.data.path.clear();
  same.train.early_stopping = {};
  if (job_.train.schedule.shape == ScheduleShape::kConstant ||
      job_.train.schedule.shape == ScheduleShape::kStep) {
    same.train.epochs = 1;
    same.train.steps = 0;
  }
  return {{"train", printJob(same)},
          {"rows", data_.trainRows()},
          {"weights", network_.parameters().count()}};
}

// Whether workers differ from each other in what they need to go on.
bool Checkpoints::differ() const {
  return group_.size() > 1 && (job_.train.sync.mode != SyncMode::kStep ||
                               (job_.train.wire != WireType::kFloat32 && group_.hosts() > 1));
}

Status Checkpoints::resume(Progress& progress, std::int64_t& global_batch) {
  if (here_.rank == 0 || differ()) {
    auto store = CheckpointStore::open(here_.checkpoint);
    if (!store) return std::move(store).error();
    store_.emplace(std::move(*store));
  }
  CheckpointStore::Search search;
  if (here_.rank == 0) {
    if (auto cleaned = store_->clean(); !cleaned)
      return std::move(cleaned).error().during("checkpoint.path");
    search = store_->findNewest();
    for (const std::string& sentence : search.passed_over)
      reporter_.warn("passed over a checkpoint: " + sentence);
    if (search.found && search.finished && here_.generation == 1) search.found.reset();
    if (!search.found) {
      if (auto begun = store_->begin(); !begun)
        return std::move(begun).error().during("checkpoint.path");
    }
  }
  // The first worker chooses, the others take the same.
  std::int64_t chosen = search.found ? search.found->manifest.step : -1;
  if (auto told = group_.broadcast(std::as_writable_bytes(std::span(&chosen, 1)), 0); !told)
    return told;
  if (chosen >= 0 && store_) {
    if (here_.rank != 0) search = store_->findNewest();
    if (!search.found || search.found->manifest.step != chosen) {
      return Error(
          Code::kUnavailable,
          fmt::format("checkpoint.path: worker {} does not see the checkpoint of step {} in {}",
                      here_.rank, chosen, here_.checkpoint));
    }
    const nlohmann::json now = about();
    const nlohmann::json& then = search.found->manifest.about;
    if (now != then) {
      return Error(
          Code::kInvalid,
          fmt::format("checkpoint.path: {} has checkpoints of another training that did not end "
                      "({}); give another path, or remove them",
                      here_.checkpoint,
                      now["train"] != then.value("train", "")
                          ? firstDifference(now["train"], then.value("train", ""))
                          : "the data or the model has another size"));
    }
    global_batch = search.found->manifest.state.value("global_batch", global_batch);
    if (auto loaded = load(*search.found, progress); !loaded) {
      return std::move(loaded).error().during(search.found->directory);
    }
    reporter_.say(
        fmt::format("going on from step {} ({})", progress.step, search.found->directory));
  }
  if (chosen >= 0 && !differ()) {
    if (auto told = tellAll(progress, global_batch); !told) return told;
  }
  last_step_ = progress.step;
  if (store_) {
    writer_.emplace(*store_, job_.checkpoint.keep,
                    [this](const std::string& sentence) { reporter_.warn(sentence); });
  }
  return group_.barrier();
}

// The first worker has loaded the state; the others need not see its files.
Status Checkpoints::tellAll(Progress& progress, std::int64_t& global_batch) {
  std::vector<at::Tensor> tensors{network_.parameters().values()};
  for (auto& [name, tensor] : optimizer_.memory()) tensors.push_back(tensor);
  for (const at::Tensor& buffer : network_.buffers()) tensors.push_back(buffer);
  for (at::Tensor& tensor : tensors) {
    const std::span bytes(static_cast<std::byte*>(tensor.data_ptr()), tensor.nbytes());
    if (auto told = group_.broadcast(bytes, 0); !told) return told;
  }
  struct {
    Progress progress;
    std::int64_t global_batch, optimizer_steps;
  } rest{progress, global_batch, optimizer_.steps()};
  if (auto told = group_.broadcast(std::as_writable_bytes(std::span(&rest, 1)), 0); !told)
    return told;
  progress = rest.progress;
  global_batch = rest.global_batch;
  optimizer_.setSteps(rest.optimizer_steps);
  return {};
}

Safetensors Checkpoints::ownState(const Progress& progress) const {
  Safetensors state;
  for (const auto& [name, tensor] : optimizer_.memory()) {
    state.arrays.emplace_back("optimizer." + name, toArray(copyOf(tensor)));
  }
  if (sync_.momentum().defined())
    state.arrays.emplace_back("outer.momentum", toArray(copyOf(sync_.momentum())));
  int number = 0;
  for (const at::Tensor& buffer : network_.buffers()) {
    state.arrays.emplace_back(fmt::format("buffer.{}", number++), toArray(copyOf(buffer)));
  }
  if (!sync_.inStep(progress.step, false) || job_.train.sync.mode == SyncMode::kEnd) {
    state.arrays.emplace_back("weights", toArray(copyOf(network_.parameters().values())));
  }
  const std::string feedback = group_.feedback();
  if (!feedback.empty()) {
    Array bytes = makeArray(DType::kU8, {static_cast<std::int64_t>(feedback.size())});
    std::memcpy(writableData(bytes), feedback.data(), feedback.size());
    state.arrays.emplace_back("feedback", std::move(bytes));
  }
  state.metadata["progress"] = nlohmann::json(progress).dump();
  state.metadata["optimizer_steps"] = std::to_string(optimizer_.steps());
  return state;
}

void Checkpoints::take(const Progress& progress, std::int64_t global_batch) {
  CheckpointWriter::Snapshot snapshot{.step = progress.step};
  if (here_.rank == 0) {
    Safetensors model;
    for (const Parameter& parameter : network_.parameters().all()) {
      model.arrays.emplace_back(parameter.name, toArray(copyOf(parameter.value)));
    }
    model.metadata = data_.about();
    model.metadata["format"] = "pt";
    snapshot.files.emplace_back(kModelFile, std::move(model));
    CheckpointStore::Manifest manifest{.step = progress.step,
                                       .world = group_.size(),
                                       .about = about(),
                                       .state = {{"global_batch", global_batch}},
                                       .files = {kModelFile}};
    if (differ()) {
      for (int rank = 0; rank < group_.size(); ++rank) manifest.files.push_back(rankFile(rank));
    } else {
      manifest.files.emplace_back(kStateFile);
    }
    snapshot.manifest = std::move(manifest);
  }
  if (differ()) {
    snapshot.files.emplace_back(rankFile(here_.rank), ownState(progress));
  } else if (here_.rank == 0) {
    snapshot.files.emplace_back(kStateFile, ownState(progress));
  }
  if (!snapshot.files.empty()) writer_->write(std::move(snapshot));
}

Status Checkpoints::load(const CheckpointStore::Found& found, Progress& progress) {
  auto model = readSafetensors(found.directory + "/" + kModelFile);
  if (!model) return std::move(model).error();
  if (auto loaded = loadWeights(network_.parameters(), model->arrays); !loaded) return loaded;
  const auto& files = found.manifest.files;
  const bool shared = std::find(files.begin(), files.end(), kStateFile) != files.end();
  const bool same_world = found.manifest.world == group_.size();
  if (job_.train.sync.mode == SyncMode::kEnd && !same_world) {
    return Error(Code::kInvalid,
                 fmt::format("it is of {} workers that train apart, and now there are {}",
                             found.manifest.world, group_.size()));
  }
  const std::string file = shared ? kStateFile : rankFile(here_.rank % found.manifest.world);
  auto state = readSafetensors(found.directory + "/" + file);
  if (!state) return std::move(state).error();
  if (auto loaded = loadOwnState(*state, progress, found.manifest.world); !loaded) {
    return std::move(loaded).error().during(file);
  }
  sync_.weightsLoaded();
  return {};
}

Status Checkpoints::loadOwnState(const Safetensors& state, Progress& progress, int world_then) {
  const bool same_world = world_then == group_.size();
  const auto copy = [&](const std::string& name, at::Tensor& to) -> Status {
    const Array* array = state.find(name);
    if (array == nullptr || array->elements() != to.numel()) {
      return Error(Code::kInvalid, "there is no " + name + " of the right size");
    }
    at::NoGradGuard no_grad;
    to.copy_(toTensor(*array).view(to.sizes()));
    return {};
  };
  for (auto& [name, tensor] : optimizer_.memory()) {
    if (auto copied = copy("optimizer." + name, tensor); !copied) return copied;
  }
  if (sync_.momentum().defined()) {
    if (auto copied = copy("outer.momentum", sync_.momentum()); !copied) return copied;
  }
  int number = 0;
  for (at::Tensor& buffer : network_.buffers()) {
    if (auto copied = copy(fmt::format("buffer.{}", number++), buffer); !copied) return copied;
  }
  if (state.find("weights") != nullptr) {
    if (auto copied = copy("weights", network_.parameters().values()); !copied) return copied;
  }
  const Array* feedback = state.find("feedback");
  if (feedback != nullptr && same_world) {
    const std::string_view bytes(reinterpret_cast<const char*>(feedback->data), feedback->bytes());
    if (auto restored = group_.restoreFeedback(bytes); !restored) return restored;
  }
  const auto text = state.metadata.find("progress");
  const nlohmann::json json = text == state.metadata.end()
                                  ? nlohmann::json()
                                  : nlohmann::json::parse(text->second, nullptr, false);
  if (!json.is_object()) return Error(Code::kInvalid, "it does not say where the training was");
  progress = json.get<Progress>();
  const auto steps = state.metadata.find("optimizer_steps");
  optimizer_.setSteps(steps == state.metadata.end() ? progress.step : std::stoll(steps->second));
  if (same_world || !differ()) return {};
  // The sums of the epoch so far are those of the workers there were.
  if (here_.rank >= world_then) {
    progress.loss_sum = 0;
    progress.correct = progress.samples = 0;
  }
  return {};
}

Result<bool> Checkpoints::isTime(const Progress& progress, bool epoch_over, bool last) {
  if (progress.step == last_step_) return false;
  // Workers that differ write only where they have the same weights, so that another number of them
  // can go on from there; those that train apart never do.
  const bool apart = job_.train.sync.mode == SyncMode::kEnd;
  if (!apart && !sync_.inStep(progress.step, epoch_over)) return false;
  if (last) return true;
  const Checkpoint& wanted = job_.checkpoint;
  if (wanted.every > 0 && progress.step / wanted.every != last_step_ / wanted.every) return true;
  if (wanted.every == 0 && wanted.interval.count() == 0) return epoch_over;
  if (wanted.interval.count() == 0) return false;
  std::int64_t due = std::chrono::steady_clock::now() - last_time_ >= wanted.interval ? 1 : 0;
  if (!differ()) return due == 1;
  // One clock decides for all. Asking it at every step would be a wait at every step.
  if (job_.train.sync.mode == SyncMode::kStep && progress.step % kAskEvery != 0) return false;
  if (auto told = group_.broadcast(std::as_writable_bytes(std::span(&due, 1)), 0); !told) {
    return std::move(told).error();
  }
  return due == 1;
}

Status Checkpoints::afterStep(const Progress& progress, std::int64_t global_batch, bool epoch_over,
                              bool last) {
  const auto time = isTime(progress, epoch_over, last);
  if (!time) return time.error();
  if (!*time) return {};
  last_step_ = progress.step;
  last_time_ = std::chrono::steady_clock::now();
  take(progress, global_batch);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - last_time_;
  delay_ += took.count();
  return {};
}

void Checkpoints::settle() {
  if (writer_) writer_->finish();
}

Status Checkpoints::finish() { return here_.rank == 0 ? store_->finish() : Status(); }

}  // namespace dure
