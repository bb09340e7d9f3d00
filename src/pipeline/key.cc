#include "pipeline/key.h"

#include <fmt/core.h>

#include "base/sha256.h"
#include "base/text.h"
#include "spec/print.h"

namespace dure::pipeline {

Result<std::string> keyOf(const Pipeline& pipeline, const Part& part,
                          const std::map<std::string, std::string>& inputs,
                          const std::map<std::string, std::vector<std::string>>& needs) {
  auto job = jobOf(pipeline, part, symbolicFolders());
  if (!job) return std::move(job).error();
  // A step that fans out does not do the same in each part, even if all say the same.
  const Step& step = pipeline.steps.at(part.step);
  job->name = step.name;
  job->deadline = {};
  job->restarts = {};
  job->timeouts = {};
  job->resources = {};
  // Another version may make something else of the same.
  std::string text = fmt::format("dure {}\n{}\n{} {}\n", DURE_VERSION, kindName(step.kind),
                                 step.fans_out, part.index);
  text += spec::printJob(*job);
  for (const auto& [path, digest] : inputs) {
    text += fmt::format("input {} {}\n", sha256Hex(path), digest);
  }
  for (const auto& [name, digests] : needs) {
    text += fmt::format("need {} {}\n", name, join(digests, " "));
  }
  return sha256Hex(text);
}

}  // namespace dure::pipeline
