#include "runs/run_writer.h"

#include <nlohmann/json.hpp>

#include "base/text.h"
#include "protocol/report.h"

namespace dure::runs {
namespace {

// What others must not lose when the power goes. The rest only tells what was seen.
bool isDecision(gang::EntryKind kind) {
  return kind != gang::EntryKind::kJoined && kind != gang::EntryKind::kExited &&
         kind != gang::EntryKind::kSilent;
}

}  // namespace

Result<std::unique_ptr<RunWriter>> RunWriter::open(const RunPaths& paths, const Clock& clock) {
  auto events = AppendFile::open(paths.events());
  if (!events) return std::move(events).error();
  auto metrics = AppendFile::open(paths.metrics());
  if (!metrics) return std::move(metrics).error();
  return std::unique_ptr<RunWriter>(
      new RunWriter(paths, clock, *std::move(events), *std::move(metrics)));
}

void RunWriter::append(const std::vector<gang::Entry>& entries,
                       std::function<void(const Status&)> written) {
  for (const gang::Entry& entry : entries) {
    if (auto status = append(entry); !status) return written(status);
  }
  written({});
}

Status RunWriter::append(const gang::Entry& entry) {
  const auto failed = [](Error error) { return std::move(error).during("write the journal"); };
  if (auto s = events_.append(gang::toJson(entry).dump() + "\n"); !s)
    return failed(std::move(s).error());
  if (!isDecision(entry.kind)) return {};
  if (auto s = events_.sync(); !s) return failed(std::move(s).error());
  return {};
}

Status RunWriter::output(int generation, int rank, std::string_view lines) {
  if (generation != generation_) {
    logs_.clear();
    generation_ = generation;
    if (auto made = makeDirectories(paths_.logs(generation)); !made) return made;
  }
  auto log = logs_.find(rank);
  if (log == logs_.end()) {
    auto opened = AppendFile::open(paths_.log(generation, rank));
    // There may be no descriptor left, but what a program prints must not be lost for that.
    while (!opened && giveUpDescriptor()) opened = AppendFile::open(paths_.log(generation, rank));
    if (!opened) return std::move(opened).error();
    log = logs_.emplace(rank, *std::move(opened)).first;
  }
  if (auto s = log->second.append(lines); !s) {
    return std::move(s).error().during("write the log of rank " + std::to_string(rank));
  }
  return {};
}

// One of another log, which is opened again when its rank prints, or the one that was kept for
// this.
bool RunWriter::giveUpDescriptor() {
  if (!logs_.empty()) {
    logs_.erase(logs_.begin());
    return true;
  }
  return std::exchange(spare_, Fd()).get() >= 0;
}

Status RunWriter::metric(int generation, int rank, std::string_view line) {
  // A rank reports what it likes; only objects can be told apart from each other, so anything else
  // becomes the text of one.
  nlohmann::json report =
      protocol::parseReport(line).value_or(nlohmann::json{{"text", toValidUtf8(line)}});
  report["time"] = formatTime(clock_.now());
  report["generation"] = generation;
  report["rank"] = rank;
  const std::string text =
      report.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  if (auto s = metrics_.append(text); !s) return std::move(s).error().during("write the metrics");
  return {};
}

}  // namespace dure::runs
