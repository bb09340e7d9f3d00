#include "train/rank_environment.h"

#include <fmt/core.h>

#include <charconv>
#include <cstdlib>

#include "base/files.h"
#include "base/rank_names.h"

namespace dure::train {
namespace {

constexpr std::size_t kMaxRunId = 4096;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

Status readNumber(const char* name, int least, int most, int& out) {
  const std::string text = variable(name);
  if (text.empty()) return {};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error == std::errc() && end == text.data() + text.size() && out >= least && out <= most)
    return {};
  return Error(Code::kInvalid,
               fmt::format("{} must be a number from {} to {}, got '{}'", name, least, most, text));
}

}  // namespace

Result<RankEnvironment> readRankEnvironment() {
  constexpr int kMany = 1'000'000;
  RankEnvironment here;
  int port = 0;
  for (const Status& read : {readNumber(variables::kWorldSize, 1, kMany, here.world),
                             readNumber(variables::kRank, 0, here.world - 1, here.rank),
                             readNumber(variables::kGeneration, 1, kMany, here.generation),
                             readNumber(variables::kMasterPort, 1, 65535, port)}) {
    if (!read) return read.error();
  }
  here.port = static_cast<std::uint16_t>(port);
  here.address = variable(variables::kMasterAddress);
  here.key =
      fmt::format("{}/{}:{}/{}", variable(variables::kJob), here.address, port, here.generation);
  here.run = variable(variables::kRun);
  here.metrics = variable(variables::kMetrics);
  here.checkpoint = variable(variables::kCheckpoint);
  here.output = variable(variables::kOutput);
  here.directory = variable(variables::kTaskDirectory);
  here.run_id = variable(variables::kRunId);
  if (!here.directory.empty()) {
    here.job_file = here.directory + "/" + task_files::kJob;
    auto id = readFile(here.directory + "/" + task_files::kRunId, kMaxRunId);
    if (!id && id.error().code() != Code::kNotFound) return std::move(id).error();
    if (id) here.run_id = *std::move(id);
  }
  if (here.world > 1 && (here.address.empty() || port == 0)) {
    return Error(Code::kInvalid, fmt::format("{} and {} must say where the first rank is",
                                             variables::kMasterAddress, variables::kMasterPort));
  }
  return here;
}

}  // namespace dure::train
