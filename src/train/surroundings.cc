#include "train/surroundings.h"

#include <fmt/core.h>

#include <charconv>
#include <cstdlib>

#include "base/files.h"

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

Result<Surroundings> readSurroundings() {
  constexpr int kMany = 1'000'000;
  Surroundings here;
  int port = 0;
  for (const Status& read : {readNumber("DURE_WORLD_SIZE", 1, kMany, here.world),
                             readNumber("DURE_RANK", 0, here.world - 1, here.rank),
                             readNumber("DURE_GENERATION", 1, kMany, here.generation),
                             readNumber("DURE_MASTER_PORT", 1, 65535, port)}) {
    if (!read) return read.error();
  }
  here.port = static_cast<std::uint16_t>(port);
  here.address = variable("DURE_MASTER_ADDR");
  here.key = fmt::format("{}/{}:{}/{}", variable("DURE_JOB"), here.address, port, here.generation);
  here.run = variable("DURE_RUN");
  here.metrics = variable("DURE_METRICS");
  here.checkpoint = variable("DURE_CHECKPOINT");
  here.output = variable("DURE_OUTPUT");
  here.directory = variable("DURE_TASK_DIR");
  here.run_id = variable("DURE_RUN_ID");
  if (!here.directory.empty()) {
    here.job_file = here.directory + "/job.yaml";
    auto id = readFile(here.directory + "/run_id", kMaxRunId);
    if (!id && id.error().code() != Code::kNotFound) return std::move(id).error();
    if (id) here.run_id = *std::move(id);
  }
  if (here.world > 1 && (here.address.empty() || port == 0)) {
    return Error(Code::kInvalid,
                 "DURE_MASTER_ADDR and DURE_MASTER_PORT must say where the first rank is");
  }
  return here;
}

}  // namespace dure::train
