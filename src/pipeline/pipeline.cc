#include "pipeline/pipeline.h"

#include <fmt/core.h>

namespace dure::pipeline {

std::string kindName(StepKind kind) {
  switch (kind) {
    case StepKind::kCommand:
      return "command";
    case StepKind::kJob:
      return "job";
    case StepKind::kService:
      break;
  }
  return "service";
}

const Step* Pipeline::find(const std::string& wanted) const {
  for (const Step& step : steps) {
    if (step.name == wanted) return &step;
  }
  return nullptr;
}

std::vector<Part> partsOf(const Pipeline& pipeline) {
  std::vector<Part> parts;
  for (std::size_t i = 0; i < pipeline.steps.size(); ++i) {
    const Step& step = pipeline.steps[i];
    if (!step.fans_out) {
      parts.push_back({i, 0, step.name, step.name});
      continue;
    }
    for (int index = 0; index < std::ssize(step.items); ++index) {
      parts.push_back({i, index, fmt::format("{}-{}", step.name, index),
                       fmt::format("{}/{}", step.name, index)});
    }
  }
  return parts;
}

}  // namespace dure::pipeline
