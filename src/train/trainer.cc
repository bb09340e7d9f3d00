#include "train/trainer.h"

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <sys/resource.h>
#include <torch/csrc/jit/runtime/jit_exception.h>

#include <chrono>
#include <cmath>

#include "base/text.h"
#include "train/batch_loader.h"
#include "train/checkpoints.h"
#include "train/evaluation.h"
#include "train/model_output.h"
#include "train/non_finite.h"
#include "train/reason.h"
#include "train/reporter.h"
#include "train/sample_order.h"
#include "train/schedule.h"
#include "train/synchronizer.h"
#include "train/training_facts.h"

namespace dure::train {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kReportEvery{200};
// Workers that synchronise rarely may be far from each other; the group notices the death of one
// without a time-out.
constexpr Duration kWorkersWait = std::chrono::hours(24);

double secondsSince(SteadyClock::time_point began) {
  return std::chrono::duration<double>(SteadyClock::now() - began).count();
}

group::Compression compressionOf(spec::WireType type) {
  return type == spec::WireType::kBFloat16  ? group::Compression::kBFloat16
         : type == spec::WireType::kFloat16 ? group::Compression::kFloat16
                                            : group::Compression::kNone;
}

std::int64_t peakMemory() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return std::int64_t{usage.ru_maxrss} * 1024;
}

// The batches of one worker, from a step on: which rows they are, in which pieces.
class WorkerBatches {
 public:
  WorkerBatches(const SampleOrder& order, std::int64_t first_step, std::int64_t steps, int rank,
                int world, int pieces)
      : order_(order),
        step_(first_step),
        steps_(steps),
        rank_(rank),
        world_(world),
        pieces_(pieces) {}

  // The part of a step that is the worker's piece.
  static Share pieceOf(const SampleOrder& order, std::int64_t step, int rank, int world, int piece,
                       int pieces) {
    const Share own = shareOf(order.rowsInStep(step % order.stepsPerEpoch()), rank, world);
    const Share part = shareOf(own.size(), piece, pieces);
    return {own.begin + part.begin, own.begin + part.end};
  }

  // Empty pieces are passed over.
  std::optional<std::vector<std::int64_t>> next(std::int64_t global_batch) {
    while (step_ < steps_) {
      const Share part = pieceOf(order_, step_, rank_, world_, piece_, pieces_);
      const std::int64_t epoch = step_ / order_.stepsPerEpoch();
      const std::int64_t first = step_ % order_.stepsPerEpoch() * global_batch;
      if (++piece_ == pieces_) {
        piece_ = 0;
        ++step_;
      }
      if (part.size() == 0) continue;
      std::vector<std::int64_t> rows;
      for (std::int64_t at = part.begin; at < part.end; ++at)
        rows.push_back(order_.rowAt(epoch, first + at));
      return rows;
    }
    return std::nullopt;
  }

 private:
  const SampleOrder& order_;
  std::int64_t step_;
  const std::int64_t steps_;
  const int rank_;
  const int world_;
  const int pieces_;
  int piece_ = 0;
};

class Trainer {
 public:
  Trainer(const spec::Job& job, const RankEnvironment& here)
      : job_(job), train_(job.train), here_(here) {}

  Status run() {
    auto data = TrainingData::open(train_);
    if (!data) return std::move(data).error();
    data_.emplace(std::move(*data));
    reporter_.emplace(here_, data_->shape().classes > 0);
    auto network = makeNetwork(train_, data_->shape());
    if (!network) return std::move(network).error();
    network_ = std::move(*network);
    if (here_.rank == 0 && !here_.output.empty()) {
      if (auto writable = ModelOutput(here_).check(); !writable) return writable;
    }
    if (auto joined = join(); !joined) return joined;
    if (auto prepared = prepare(); !prepared) return prepared;
    introduce();
    began_ = SteadyClock::now();
    if (auto trained = steps(); !trained) return trained;
    return finish();
  }

 private:
  Status join() {
    auto group = group::joinGroup({.address = here_.address,
                                   .port = here_.port,
                                   .rank = here_.rank,
                                   .size = here_.world,
                                   .key = here_.key,
                                   .compression = compressionOf(train_.wire),
                                   .wait = kWorkersWait});
    if (!group) return std::move(group).error();
    group_ = std::move(*group);
    return {};
  }

  // Everything that depends on the global batch, and what a checkpoint says.
  Status prepare() {
    optimizer_.emplace(train_.optimizer, network_->parameters().values().numel());
    sync_.emplace(train_, *group_, *network_);
    const std::int64_t workers = std::int64_t{job_.workers.max} * spec::processesPerTask(job_);
    global_batch_ = workers * train_.batch * train_.accumulate;
    if (!here_.checkpoint.empty()) {
      checkpoints_.emplace(job_, here_, *data_, *network_, *optimizer_, *sync_, *group_,
                           *reporter_);
      if (auto resumed = checkpoints_->resume(progress_, global_batch_); !resumed) return resumed;
    }
    order_.emplace(train_.seed, data_->trainRows(), global_batch_);
    resumed_at_ = static_cast<double>(progress_.step);
    steps_ = order_->stepsPerEpoch() * train_.epochs;
    if (train_.steps > 0) steps_ = std::min<std::int64_t>(steps_, train_.steps);
    loss_ = lossFor(data_->shape().classes, outputs());
    return {};
  }

  std::int64_t outputs() {
    at::NoGradGuard no_grad;
    const std::int64_t row = 0;
    auto batch = data_->read(*data_->dataset().train, std::span(&row, 1));
    return batch ? network_->forward(batch->samples, nullptr).numel() : 0;
  }

  void introduce() {
    const DataShape& shape = data_->shape();
    reporter_->say(fmt::format(
        "{} samples of {}{}; {} with {} weights; {} worker{}, {} sample{} a step",
        withCommas(data_->trainRows()), fmt::join(shape.sample, "×"),
        shape.classes > 0 ? fmt::format(", {} classes", shape.classes) : "",
        train_.model.name.empty() ? train_.model.file : train_.model.name,
        withCommas(network_->parameters().count()), here_.world, here_.world == 1 ? "" : "s",
        withCommas(global_batch_), global_batch_ == 1 ? "" : "s"));
    if (averagesOnce()) {
      reporter_->say(
          "one-shot averaging: until the end the numbers are of each worker's own model on its own "
          "part of the data; then the average of the models is tested");
    }
  }

  bool averagesOnce() const { return sync_->policy().averagesOnce() && group_->size() > 1; }

  bool lastOfEpoch(std::int64_t done) const {
    return done % order_->stepsPerEpoch() == 0 || done == steps_;
  }

  Status steps() {
    const std::int64_t first = progress_.step;
    WorkerBatches batches(*order_, first, steps_, here_.rank, here_.world, train_.accumulate);
    BatchLoader loader(*data_, *data_->dataset().train,
                       [&] { return batches.next(global_batch_); });
    epoch_began_ = SteadyClock::now();
    while (progress_.step < steps_ && !progress_.stopped) {
      const auto began = SteadyClock::now();
      if (auto done = step(loader); !done) return done;
      training_seconds_ += secondsSince(began);
      trained_samples_ += order_->rowsInStep((progress_.step - 1) % order_->stepsPerEpoch());
      const bool epoch_over = lastOfEpoch(progress_.step);
      if (epoch_over) {
        if (auto ended = endEpoch(); !ended) return ended;
      }
      report(epoch_over);
      if (!checkpoints_) continue;
      if (auto saved = checkpoints_->afterStep(progress_, global_batch_, epoch_over,
                                               progress_.step == steps_ || progress_.stopped);
          !saved) {
        return orTheData(saved.error(), progress_.step - 1);
      }
    }
    return {};
  }

  Status step(BatchLoader& loader) {
    const std::int64_t step = progress_.step;
    const std::int64_t rows = order_->rowsInStep(step % order_->stepsPerEpoch());
    const std::int64_t own = shareOf(rows, here_.rank, here_.world).size();
    // The sum over all workers is then the mean over the whole batch, whoever had how much of it.
    const auto divisor =
        static_cast<double>(sync_->sharesGradients() ? rows : std::max<std::int64_t>(own, 1));
    const std::int64_t own_end = shareOf(rows, here_.rank, here_.world).end;
    bool any = false;
    double loss_sum = 0;
    std::int64_t correct = 0;
    // The same, for the all-reduce of the gradients.
    float* extras = network_->parameters().extras();
    extras[0] = extras[1] = 0;
    if (own == 0) {
      network_->parameters().grads().zero_();
      sync_->beforeBackward();
    }
    for (int piece = 0; piece < train_.accumulate; ++piece) {
      const Share part =
          WorkerBatches::pieceOf(*order_, step, here_.rank, here_.world, piece, train_.accumulate);
      // Rows fill the pieces from the first on, so that only the last ones can be empty.
      const bool last = piece + 1 == train_.accumulate || part.end == own_end;
      if (part.size() == 0) continue;
      auto batch = loader.take();
      if (!batch) return std::move(batch).error();
      const StepRandom random{.key = mixBits(train_.seed, static_cast<std::uint64_t>(step)),
                              .first_sample = part.begin};
      network_->beginStep(any);
      any = true;
      const at::Tensor outputs = network_->forward(batch->samples, &random);
      const at::Tensor loss = lossSum(loss_, outputs, batch->labels, train_.label_smoothing);
      loss_sum += loss.item<double>();
      correct += countCorrect(loss_, outputs, batch->labels);
      extras[0] = static_cast<float>(loss_sum);
      extras[1] = static_cast<float>(correct);
      if (last) sync_->beforeBackward();
      (loss / divisor).backward();
    }
    if (auto shared = sync_->afterBackward(); !shared) return shared;
    if (sync_->sharesExtras()) {
      loss_sum = extras[0];
      correct = std::llround(extras[1]);
    }
    if (!std::isfinite(loss_sum)) {
      return orTheData(
          Error(Code::kInvalid, fmt::format("the loss became NaN or infinite in epoch {}: try a "
                                            "smaller train.optimizer.lr, or train.clip",
                                            step / order_->stepsPerEpoch() + 1)),
          step);
    }
    progress_.loss_sum += loss_sum;
    progress_.correct += correct;
    progress_.samples += sync_->sharesExtras() ? rows : own;
    at::Tensor& grads = network_->parameters().grads();
    if (train_.clip > 0) clipNorm(grads, train_.clip);
    const auto workers = static_cast<int>(global_batch_ / (train_.batch * train_.accumulate));
    const double rate = learningRate(train_, workers, step, order_->stepsPerEpoch(), steps_);
    optimizer_->step(network_->parameters().values(), grads, rate);
    ++progress_.step;
    return sync_->afterStep(progress_.step, lastOfEpoch(progress_.step));
  }

  // What failed after `step`, or what in the data of that step and of the one before, whose numbers
  // are in the weights now, made it fail. Looks at the rows of all workers, so that all say the
  // same.
  Error orTheData(Error failed, std::int64_t step) const {
    for (std::int64_t at = step; at >= std::max<std::int64_t>(0, step - 1); --at) {
      const std::int64_t epoch = at / order_->stepsPerEpoch();
      const std::int64_t within = at % order_->stepsPerEpoch();
      std::vector<std::int64_t> rows;
      for (std::int64_t i = 0; i < order_->rowsInStep(within); ++i)
        rows.push_back(order_->rowAt(epoch, within * global_batch_ + i));
      const auto found = findNonFinite(*data_, rows);
      if (!found) return found.error();
      if (found->empty()) continue;
      return Error(Code::kInvalid, fmt::format("train.data: {}, and so is the loss in epoch {}",
                                               *found, epoch + 1));
    }
    return failed;
  }

  // All-reduces the epoch's sums, evaluates, prints the line, decides whether to go on.
  Status endEpoch() {
    double numbers[3] = {progress_.loss_sum, static_cast<double>(progress_.correct),
                         static_cast<double>(progress_.samples)};
    if (!sync_->sharesExtras()) {
      if (auto reduced = group_->allReduce(std::span<double>(numbers)); !reduced) return reduced;
    }
    EpochResult result{.epoch = (progress_.step - 1) / order_->stepsPerEpoch() + 1,
                       .loss = numbers[0] / numbers[2],
                       .accuracy = numbers[1] / numbers[2]};
    result.samples_per_second = static_cast<double>(trained_samples_ - samples_before_) /
                                std::max(1e-9, training_seconds_ - seconds_before_);
    samples_before_ = trained_samples_;
    seconds_before_ = training_seconds_;
    progress_.loss_sum = 0;
    progress_.correct = progress_.samples = 0;
    if (auto healthy = checkWeights(*network_, progress_.step); !healthy)
      return orTheData(healthy.error(), progress_.step - 1);
    if (data_->testRows() > 0) {
      auto tested = evaluate(*network_, *data_, loss_, *group_);
      if (!tested) return std::move(tested).error();
      result.tested = true;
      result.test_loss = tested->loss;
      result.test_accuracy = tested->accuracy;
    }
    result.seconds = secondsSince(epoch_began_);
    epoch_began_ = SteadyClock::now();
    reporter_->epoch(result);
    last_ = result;
    considerStopping(result.tested ? result.test_loss : result.loss);
    return {};
  }

  void considerStopping(double loss) {
    const spec::EarlyStopping& stopping = train_.early_stopping;
    if (stopping.patience == 0) return;
    if (loss < progress_.best_loss - stopping.min_delta) {
      progress_.best_loss = loss;
      progress_.bad_epochs = 0;
    } else if (++progress_.bad_epochs >= stopping.patience) {
      progress_.stopped = true;
      reporter_->say(fmt::format("no better for {} epoch{}: training ends here",
                                 progress_.bad_epochs, progress_.bad_epochs == 1 ? "" : "s"));
    }
  }

  void report(bool now) {
    if (!now && SteadyClock::now() - reported_ < kReportEvery) return;
    reported_ = SteadyClock::now();
    nlohmann::json line = {{"step", progress_.step}};
    if (here_.rank == 0) {
      const double rate = static_cast<double>(trained_samples_) / std::max(1e-9, training_seconds_);
      const double elapsed = secondsSince(began_);
      const auto done = static_cast<double>(progress_.step);
      line["steps"] = steps_;
      line["epoch"] = (progress_.step - 1) / order_->stepsPerEpoch() + 1;
      line["epochs"] = train_.epochs;
      line["samples_per_second"] = rate;
      line["seconds_left"] =
          elapsed * (static_cast<double>(steps_) - done) / std::max(1.0, done - resumed_at_);
      if (progress_.samples > 0) {
        const auto samples = static_cast<double>(progress_.samples);
        line["loss"] = progress_.loss_sum / samples;
        if (data_->shape().classes > 0)
          line["accuracy"] = static_cast<double>(progress_.correct) / samples;
      } else if (last_) {
        line["loss"] = last_->loss;
        if (data_->shape().classes > 0) line["accuracy"] = last_->accuracy;
      }
    }
    reporter_->metric(line);
  }

  Status finish() {
    if (auto averaged = sync_->atEnd(); !averaged) return averaged;
    TrainingSummary summary{.classes = data_->shape().classes > 0};
    if (data_->testRows() > 0) {
      if (averagesOnce() || !last_) {
        auto tested = evaluate(*network_, *data_, loss_, *group_);
        if (!tested) return std::move(tested).error();
        summary.accuracy = tested->accuracy;
        summary.loss = tested->loss;
      } else {
        summary.accuracy = last_->test_accuracy;
        summary.loss = last_->test_loss;
      }
      summary.tested = true;
    }
    if (checkpoints_) checkpoints_->settle();
    if (auto saved = saveModel(summary); !saved) return saved;
    if (auto counted = count(summary); !counted) return counted;
    if (checkpoints_) {
      if (auto ended = checkpoints_->finish(); !ended) return ended;
    }
    reporter_->summary(summary);
    return {};
  }

  // The others wait, so that none reports success before the model is there.
  Status saveModel(const TrainingSummary& summary) {
    std::int64_t failed = 0;
    Status saved;
    if (here_.rank == 0 && !here_.output.empty()) {
      ModelAbout about = data_->about();
      about.trained = trainingFacts(
          train_, {data_->trainRows(), progress_.step, order_->stepsPerEpoch(), here_.world},
          summary);
      saved = writeModel(about);
      failed = saved ? 0 : 1;
    }
    if (auto reduced = group_->allReduce(std::span(&failed, 1)); !reduced) return reduced;
    // Others leave it to the first one to say why.
    if (failed > 0 && saved)
      return Error(Code::kUnavailable, "the first worker could not write the model");
    return saved;
  }

  // To train again would not find more room: a model without its place is kept in another.
  Status writeModel(const ModelAbout& about) {
    const ModelOutput output(here_);
    const auto save = [&](const std::string& path) { return network_->save(path, about); };
    bool over = false;
    const auto written = output.write(save, [&] {
      Status ours = checkpoints_ ? checkpoints_->checkTaken() : Status();
      over = !ours;
      return ours;
    });
    if (written || over || written.error().code() == Code::kConflict) return written;
    const auto kept = output.keepElsewhere(save);
    return Error(Code::kInvalid,
                 fmt::format("output: {}; {}", written.error().message(),
                             kept ? "the model is kept in " + *kept
                                  : "nor could the model be kept: " + kept.error().message()));
  }

  Status count(TrainingSummary& summary) {
    const group::Traffic traffic = group_->traffic();
    std::int64_t bytes[2] = {traffic.network_bytes, traffic.memory_bytes};
    if (auto reduced = group_->allReduce(std::span<std::int64_t>(bytes)); !reduced) return reduced;
    std::vector<std::int64_t> peaks(static_cast<std::size_t>(group_->size()));
    const std::int64_t peak = peakMemory();
    if (auto gathered = group_->allGather(std::as_bytes(std::span(&peak, 1)),
                                          std::as_writable_bytes(std::span(peaks)));
        !gathered) {
      return gathered;
    }
    summary.network_bytes = bytes[0];
    summary.memory_bytes = bytes[1];
    summary.waited = sync_->waitedSeconds();
    if (checkpoints_) {
      summary.checkpoints = checkpoints_->written();
      summary.snapshots = checkpoints_->delay();
    }
    summary.peak_memory = *std::max_element(peaks.begin(), peaks.end());
    summary.seconds = secondsSince(began_);
    summary.samples_per_second =
        static_cast<double>(trained_samples_) / std::max(1e-9, training_seconds_);
    summary.model = here_.output;
    return {};
  }

  const spec::Job& job_;
  const spec::Train& train_;
  const RankEnvironment& here_;
  std::optional<TrainingData> data_;
  std::optional<Reporter> reporter_;
  std::unique_ptr<Network> network_;
  std::unique_ptr<group::Group> group_;
  std::optional<FlatOptimizer> optimizer_;
  std::optional<Synchronizer> sync_;
  std::optional<SampleOrder> order_;
  std::optional<Checkpoints> checkpoints_;
  LossType loss_ = LossType::kClasses;
  Progress progress_;
  std::int64_t global_batch_ = 0;
  std::int64_t steps_ = 0;

  SteadyClock::time_point began_;
  SteadyClock::time_point epoch_began_;
  SteadyClock::time_point reported_;
  std::optional<EpochResult> last_;
  double resumed_at_ = 0;
  double training_seconds_ = 0;
  double seconds_before_ = 0;
  std::int64_t trained_samples_ = 0;
  std::int64_t samples_before_ = 0;
};

}  // namespace

Status train(const spec::Job& job, const RankEnvironment& here) try {
  return Trainer(job, here).run();
} catch (const std::bad_alloc&) {
  return Error(Code::kUnavailable, "there is not enough memory");
} catch (const torch::jit::JITException& error) {
  // Raised by the user's module.
  return Error(Code::kInvalid, job.train.model.file + ": " + reasonOf(error));
} catch (const c10::IndexError& error) {
  return Error(Code::kInvalid, reasonOf(error));
} catch (const std::exception& error) {
  // Memory and threads, too, which there may be more of the next time.
  const std::string& file = job.train.model.file;
  return Error(Code::kIo, (file.empty() ? "" : file + ": ") + reasonOf(error));
}

}  // namespace dure::train
