#include "train/reporter.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>

#include "base/rank_names.h"
#include "base/text.h"

namespace dure::train {
namespace {

std::string roundedBytes(std::int64_t bytes) {
  const char* units[] = {"bytes", "KB", "MB", "GB", "TB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1000 && unit + 1 < std::size(units)) {
    value /= 1000;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} bytes", bytes) : fmt::format("{:.1f} {}", value, units[unit]);
}

std::string describeSeconds(double seconds) {
  return describeDuration(Duration(static_cast<std::int64_t>(seconds * 1000)));
}

// JSON has no word for NaN or infinity.
nlohmann::json finite(double value) {
  return std::isfinite(value) ? nlohmann::json(value) : nlohmann::json();
}

}  // namespace

Reporter::Reporter(const RankEnvironment& here, bool classes)
    : first_(here.rank == 0), classes_(classes) {
  if (!here.metrics.empty())
    pipe_.reset(open(here.metrics.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC));
}

void Reporter::say(const std::string& line) const {
  if (!first_) return;
  fmt::print("{}\n", line);
  std::fflush(stdout);
}

void Reporter::warn(const std::string& sentence) const {
  fmt::print(stderr, "{}{}\n", kTrainerPrefix, sentence);
}

void Reporter::metric(const nlohmann::json& line) {
  if (!pipe_) return;
  const std::string text = line.dump() + "\n";
  (void)!::write(pipe_.get(), text.data(), text.size());
}

void Reporter::epoch(const EpochResult& r) {
  metric({{"epoch", r.epoch},
          {"train_loss", finite(r.loss)},
          {"train_accuracy", classes_ ? finite(r.accuracy) : nlohmann::json()},
          {"test_loss", r.tested ? finite(r.test_loss) : nlohmann::json()},
          {"accuracy", r.tested && classes_ ? finite(r.test_accuracy) : nlohmann::json()},
          {"samples_per_second", r.samples_per_second},
          {"seconds", r.seconds}});
  if (!headed_) {
    say(classes_ ? "epoch      loss  accuracy  test loss  test accuracy  samples/s      time"
                 : "epoch      loss  test loss  samples/s      time");
    headed_ = true;
  }
  const std::string test_loss = r.tested ? fmt::format("{:.4f}", r.test_loss) : "-";
  const std::string test_accuracy = r.tested ? fmt::format("{:.4f}", r.test_accuracy) : "-";
  const std::string rate = withCommas(std::llround(r.samples_per_second));
  const std::string time = describeSeconds(r.seconds);
  if (classes_) {
    say(fmt::format("{:5}  {:8.4f}  {:8.4f}  {:>9}  {:>13}  {:>9}  {:>8}", r.epoch, r.loss,
                    r.accuracy, test_loss, test_accuracy, rate, time));
  } else {
    say(fmt::format("{:5}  {:8.4f}  {:>9}  {:>9}  {:>8}", r.epoch, r.loss, test_loss, rate, time));
  }
}

void Reporter::summary(const TrainingSummary& s) {
  nlohmann::json line = {{"seconds", s.seconds},
                         {"samples_per_second", s.samples_per_second},
                         {"network_bytes", s.network_bytes},
                         {"memory_bytes", s.memory_bytes},
                         {"waited_seconds", s.waited},
                         {"checkpoints", s.checkpoints},
                         {"checkpoint_seconds", s.snapshots},
                         {"peak_memory", s.peak_memory},
                         {"model", s.model}};
  if (s.tested) line["loss"] = finite(s.loss);
  if (s.tested && s.classes) line["accuracy"] = finite(s.accuracy);
  if (first_) metric({{"summary", line}});
  if (s.tested && s.classes) say(fmt::format("accuracy {:.4f}", s.accuracy));
  if (s.tested) say(fmt::format("loss {:.4f}", s.loss));
  say(fmt::format("time {}", describeSeconds(s.seconds)));
  say(fmt::format("speed {} samples/s", withCommas(std::llround(s.samples_per_second))));
  say(fmt::format("communicated {} between hosts, {} within; waited {}",
                  roundedBytes(s.network_bytes), roundedBytes(s.memory_bytes),
                  describeSeconds(s.waited)));
  if (s.checkpoints > 0) {
    say(fmt::format("checkpoints {} written; training stood still {} for them", s.checkpoints,
                    describeSeconds(s.snapshots)));
  }
  say(fmt::format("memory {} at most in a worker", roundedBytes(s.peak_memory)));
  if (!s.model.empty()) say(fmt::format("model {}", s.model));
}

std::string withCommas(std::int64_t number) {
  const std::string digits = std::to_string(number < 0 ? -number : number);
  std::string text = number < 0 ? "-" : "";
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

}  // namespace dure::train
