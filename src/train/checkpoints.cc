#include "train/checkpoints.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "base/process.h"
#include "spec/print.h"
#include "train/data_fingerprint.h"
#include "train/evaluation.h"
#include "train/model_files.h"
#include "train/training_difference.h"

namespace dure::train {
namespace {

constexpr const char* kModelFile = "model.safetensors";
constexpr const char* kStateFile = "state.safetensors";
// Every so many steps workers that write together ask the first one's clock.
constexpr std::int64_t kAskEvery = 16;
// How long a worker that was killed may take to let go of the directory.
constexpr Duration kPatience{10'000};

std::string rankFile(int rank) { return fmt::format("rank-{}.safetensors", rank); }

Result<Progress> readProgress(const std::string& text) try {
  return nlohmann::json::parse(text).get<Progress>();
} catch (const nlohmann::json::exception&) {
  return Error(Code::kInvalid, "it does not say where the training was");
}

at::Tensor copyOf(const at::Tensor& tensor) {
  return tensor.detach().clone(at::MemoryFormat::Contiguous);
}

// What ends a gang whose directory somebody else has taken. To take it back from another run
// would only have that one do the same.
Error refused(const Error& error) {
  const Code code = error.code() == Code::kExists ? Code::kInvalid : error.code();
  return Error(code, "checkpoint.path: " + error.message());
}

// What the first worker decides for all: bytes, as a broadcast takes them.
struct Decision {
  std::int64_t step = -1;  // to go on from; -1: none
  char token[16] = {};     // of the gang
};

}  // namespace

Checkpoints::Checkpoints(const spec::Job& job, const RankEnvironment& here,
                         const TrainingData& data, Network& network, FlatOptimizer& optimizer,
                         Synchronizer& sync, group::Group& group, Reporter& reporter)
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
// depends on it, nor where the data lies.
Result<nlohmann::json> Checkpoints::describeTraining() const {
  spec::Job same;
  same.name = "training";
  same.strategy = job_.strategy;
  same.train = job_.train;
  same.train.data.path.clear();
  same.train.early_stopping = {};
  if (job_.train.schedule.shape == spec::ScheduleShape::kConstant ||
      job_.train.schedule.shape == spec::ScheduleShape::kStep) {
    same.train.epochs = 1;
    same.train.steps = 0;
  }
  auto data = fingerprintOf(data_.dataset());
  if (!data) return std::move(data).error().during("train.data");
  return nlohmann::json{{"train", spec::printJob(same)},
                        {"data", *std::move(data)},
                        {"weights", network_.parameters().count()}};
}

// Invalid, with the first difference, if the checkpoint is of another training.
Status Checkpoints::checkSame(const CheckpointStore::Manifest& manifest) const {
  if (about_ == manifest.about) return {};
  return Error(Code::kInvalid,
               fmt::format("checkpoint.path: {} has checkpoints of another training that did not "
                           "end ({}); give another path, or remove them",
                           here_.checkpoint, differenceBetween(about_, manifest.about)));
}

// Whether workers differ from each other in what they need to go on.
bool Checkpoints::differ() const {
  return group_.size() > 1 && (!sync_.sharesGradients() ||
                               (job_.train.wire != spec::WireType::kFloat32 && group_.hosts() > 1));
}

Status Checkpoints::openStore(const std::string& token) {
  auto described = describeTraining();
  if (!described) return std::move(described).error();
  about_ = *std::move(described);
  auto store = CheckpointStore::open(
      here_.checkpoint,
      {.run = here_.run, .run_id = here_.run_id, .generation = here_.generation, .token = token});
  if (!store) return std::move(store).error();
  store_.emplace(std::move(*store));
  return {};
}

Status Checkpoints::resume(Progress& progress, std::int64_t& global_batch) {
  CheckpointStore::Search search;
  Decision decision;
  if (here_.rank == 0) {
    randomToken().copy(decision.token, sizeof decision.token);
    if (auto opened = openStore({decision.token, sizeof decision.token}); !opened) return opened;
    auto chosen = choose();
    if (!chosen) return std::move(chosen).error();
    search = std::move(*chosen);
    if (search.found) decision.step = search.found->manifest.step;
  }
  // The first worker chooses, the others take the same.
  if (auto sent = group_.broadcast(std::as_writable_bytes(std::span(&decision, 1)), 0); !sent)
    return sent;
  if (here_.rank != 0 && differ()) {
    if (auto opened = openStore({decision.token, sizeof decision.token}); !opened) return opened;
    auto seen = decision.step < 0 ? CheckpointStore::Search{} : store_->findNewest();
    if (!seen) return std::move(seen).error().during("checkpoint.path");
    search = std::move(*seen);
  }
  if (decision.step >= 0 && store_) {
    if (!search.found || search.found->manifest.step != decision.step) {
      return Error(
          Code::kUnavailable,
          fmt::format("checkpoint.path: worker {} does not see the checkpoint of step {} in {}",
                      here_.rank, decision.step, here_.checkpoint));
    }
    if (auto same = checkSame(search.found->manifest); !same) return same;
    global_batch = search.found->manifest.state.value("global_batch", global_batch);
    if (auto loaded = load(*search.found, progress); !loaded) {
      return std::move(loaded).error().during(search.found->directory);
    }
    reporter_.say(
        fmt::format("going on from step {} ({})", progress.step, search.found->directory));
  }
  if (decision.step >= 0 && !differ()) {
    if (auto sent = broadcastState(progress, global_batch); !sent) return sent;
  }
  last_step_ = progress.step;
  if (store_) {
    writer_.emplace(*store_,
                    CheckpointWriter::Options{.keep = job_.checkpoint.keep,
                                              .complain = [this](const std::string& sentence) {
                                                reporter_.warn(sentence);
                                              }});
  }
  return group_.barrier();
}

Status Checkpoints::lockDirectory() {
  auto lock = store_->lock(kPatience);
  if (lock) {
    lock_ = std::move(*lock);
    return {};
  }
  if (lock.error().code() != Code::kExists) return std::move(lock).error();
  // A node that is gone keeps its locks on a network file system for a while. Its worker cannot
  // publish anything any more once this one has taken the directory.
  const auto older = store_->isOfOlderGeneration();
  if (older && *older) return {};
  // After a restart it is the worker before this one that takes its time.
  return Error(here_.generation == 1 ? Code::kInvalid : Code::kUnavailable,
               fmt::format("another run writes to {} ({}); give another path, or wait until that "
                           "run has ended",
                           here_.checkpoint, lock.error().message()));
}

// What the first worker goes on from, if anything; else a new training is begun.
Result<CheckpointStore::Search> Checkpoints::choose() {
  const auto failed = [](const Status& status) {
    return Error(status.error()).during("checkpoint.path");
  };
  if (auto locked = lockDirectory(); !locked) return failed(locked);
  auto search = store_->findNewest();
  if (!search) return std::move(search).error().during("checkpoint.path");
  const bool mine = !here_.run_id.empty() && search->run_id == here_.run_id;
  if (mine && search->generation > here_.generation) {
    return Error(Code::kConflict,
                 fmt::format("checkpoint.path: generation {} of this run writes to {} now",
                             search->generation, here_.checkpoint));
  }
  for (const std::string& sentence : search->passed_over)
    reporter_.warn("passed over a checkpoint: " + sentence);
  const bool same = search->found && about_ == search->found->manifest.about;
  // This run resumes what it has finished itself, if it was killed before it could say so. What
  // another run has finished is over, even if this one was killed before it began its own.
  if (search->finished && !(mine && same && here_.generation > 1)) search->found.reset();
  if (!search->found) {
    if (auto begun = store_->begin(); !begun) return failed(begun);
  } else {
    if (auto checked = checkSame(search->found->manifest); !checked) return checked.error();
    if (auto taken = store_->resume(*search); !taken) return failed(taken);
  }
  if (auto cleaned = store_->clean(); !cleaned) return failed(cleaned);
  return search;
}

// The first worker has loaded the state; the others need not see its files.
Status Checkpoints::broadcastState(Progress& progress, std::int64_t& global_batch) {
  std::vector<at::Tensor> tensors{network_.parameters().values()};
  for (auto& [name, tensor] : optimizer_.memory()) tensors.push_back(tensor);
  for (const at::Tensor& buffer : network_.buffers()) tensors.push_back(buffer);
  for (at::Tensor& tensor : tensors) {
    const std::span bytes(static_cast<std::byte*>(tensor.data_ptr()), tensor.nbytes());
    if (auto sent = group_.broadcast(bytes, 0); !sent) return sent;
  }
  struct {
    Progress progress;
    std::int64_t global_batch, optimizer_steps;
  } rest{progress, global_batch, optimizer_.steps()};
  if (auto sent = group_.broadcast(std::as_writable_bytes(std::span(&rest, 1)), 0); !sent)
    return sent;
  progress = rest.progress;
  global_batch = rest.global_batch;
  optimizer_.setSteps(rest.optimizer_steps);
  return {};
}

format::Safetensors Checkpoints::ownState(const Progress& progress) const {
  format::Safetensors state;
  for (const auto& [name, tensor] : optimizer_.memory()) {
    state.arrays.emplace_back("optimizer." + name, toArray(copyOf(tensor)));
  }
  if (sync_.momentum().defined())
    state.arrays.emplace_back("outer.momentum", toArray(copyOf(sync_.momentum())));
  int number = 0;
  for (const at::Tensor& buffer : network_.buffers()) {
    state.arrays.emplace_back(fmt::format("buffer.{}", number++), toArray(copyOf(buffer)));
  }
  if (!sync_.policy().isConsistentAfter(progress.step, false)) {
    state.arrays.emplace_back("weights", toArray(copyOf(network_.parameters().values())));
  }
  const std::string residuals = group_.residuals();
  if (!residuals.empty()) {
    format::Array bytes =
        format::makeArray(format::DType::kU8, {static_cast<std::int64_t>(residuals.size())});
    std::memcpy(format::writableData(bytes), residuals.data(), residuals.size());
    state.arrays.emplace_back("feedback", std::move(bytes));
  }
  state.metadata["progress"] = nlohmann::json(progress).dump();
  state.metadata["optimizer_steps"] = std::to_string(optimizer_.steps());
  return state;
}

void Checkpoints::take(const Progress& progress, std::int64_t global_batch) {
  CheckpointWriter::Snapshot snapshot{.step = progress.step};
  if (here_.rank == 0) {
    format::Safetensors model;
    for (const Parameter& parameter : network_.parameters().all()) {
      model.arrays.emplace_back(parameter.name, toArray(copyOf(parameter.value)));
    }
    const ModelAbout about = data_.about();
    model.metadata = about.metadata();
    if (std::string layers = network_.describe(about); !layers.empty())
      model.metadata[kArchitecture] = std::move(layers);
    model.metadata["format"] = "pt";
    snapshot.files.emplace_back(kModelFile, std::move(model));
    CheckpointStore::Manifest manifest{.step = progress.step,
                                       .world = group_.size(),
                                       .about = about_,
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
  auto model = format::readSafetensors(found.directory + "/" + kModelFile);
  if (!model) return std::move(model).error();
  if (auto loaded = loadWeights(network_.parameters(), model->arrays); !loaded) return loaded;
  const auto& files = found.manifest.files;
  const bool shared = std::find(files.begin(), files.end(), kStateFile) != files.end();
  const bool same_world = found.manifest.world == group_.size();
  if (!spec::rulesOf(job_.train.sync.mode).resizes && !same_world) {
    return Error(Code::kInvalid,
                 fmt::format("it is of {} workers with one-shot averaging, and now there are {}",
                             found.manifest.world, group_.size()));
  }
  const std::string file = shared ? kStateFile : rankFile(here_.rank % found.manifest.world);
  auto state = format::readSafetensors(found.directory + "/" + file);
  if (!state) return std::move(state).error();
  if (auto loaded = loadOwnState(*state, progress, found.manifest.world); !loaded) {
    return std::move(loaded).error().during(file);
  }
  sync_.weightsLoaded();
  return {};
}

Status Checkpoints::loadOwnState(const format::Safetensors& state, Progress& progress,
                                 int world_then) {
  const bool same_world = world_then == group_.size();
  const auto copy = [&](const std::string& name, at::Tensor& to) -> Status {
    const format::Array* array = state.find(name);
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
  const format::Array* residuals = state.find("feedback");
  if (residuals != nullptr && same_world) {
    const std::string_view bytes(reinterpret_cast<const char*>(residuals->data),
                                 residuals->bytes());
    if (auto restored = group_.restoreResiduals(bytes); !restored) return restored;
  }
  const auto metadata = [&](const char* name) {
    const auto found = state.metadata.find(name);
    return found == state.metadata.end() ? std::string() : found->second;
  };
  auto then = readProgress(metadata("progress"));
  if (!then) return std::move(then).error();
  progress = *then;
  std::int64_t steps = progress.step;
  const std::string text = metadata("optimizer_steps");
  std::from_chars(text.data(), text.data() + text.size(), steps);
  optimizer_.setSteps(steps);
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
  // can go on from there; with one-shot averaging they never do.
  const SyncPolicy& policy = sync_.policy();
  if (!policy.averagesOnce() && !policy.isConsistentAfter(progress.step, epoch_over)) return false;
  if (last) return true;
  const spec::Checkpoint& wanted = job_.checkpoint;
  const bool timed = wanted.interval.count() > 0;
  const bool counted = wanted.every > 0 ? progress.step / wanted.every != last_step_ / wanted.every
                                        : !timed && epoch_over;
  if (!counted && !timed) return false;
  // Asking the first one's clock at every step would be a wait at every step. Where the workers
  // have just averaged, they have waited for each other already.
  const bool asks = differ();
  if (!counted && asks && !policy.averagesAfter(progress.step, epoch_over) &&
      progress.step % kAskEvery != 0) {
    return false;
  }
  // While one is being written no other is taken: training would have to wait for the disk.
  const bool due = counted || std::chrono::steady_clock::now() - last_time_ >= wanted.interval;
  std::int64_t take = due && !writer_->isBusy() ? 1 : 0;
  // One worker decides for all.
  if (asks) {
    if (auto sent = group_.broadcast(std::as_writable_bytes(std::span(&take, 1)), 0); !sent)
      return std::move(sent).error();
  }
  if (counted) last_step_ = progress.step;
  return take == 1;
}

Status Checkpoints::afterStep(const Progress& progress, std::int64_t global_batch, bool epoch_over,
                              bool last) {
  // Where one worker writes for all, the others have nothing to do.
  if (!writer_) return {};
  if (auto taken = writer_->checkTaken(); !taken) return refused(taken.error());
  const auto time = isTime(progress, epoch_over, last);
  if (!time) return time.error();
  if (!*time) return {};
  // The last one is not left out, and nothing has to go on meanwhile.
  if (last) writer_->finish();
  last_step_ = progress.step;
  last_time_ = std::chrono::steady_clock::now();
  // Healthy checkpoints would be removed for one that no run can resume.
  if (auto healthy = checkWeights(network_, progress.step); !healthy) return healthy;
  take(progress, global_batch);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - last_time_;
  delay_ += took.count();
  return {};
}

void Checkpoints::settle() {
  if (writer_) writer_->finish();
}

Status Checkpoints::checkTaken() const {
  if (here_.rank != 0) return {};
  const auto taken = store_->checkTaken();
  return taken ? taken : refused(taken.error());
}

Status Checkpoints::finish() { return here_.rank == 0 ? store_->finish() : Status(); }

}  // namespace dure::train
