// Any bytes are either refused with a reason or become a pipeline, and every pipeline that was
// accepted is kept as a file that is accepted and means the same.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string_view>

#include "pipeline/graph.h"
#include "pipeline/key.h"
#include "pipeline/load.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace dure::pipeline;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const LoadedPipeline first = loadPipelineText("pipeline.yaml", text, {});
  if (!first.ok()) return 0;
  const LoadedPipeline second = loadPipelineText("pipeline.yaml", first.text, {});
  const std::vector<Part> parts = partsOf(first.pipeline);
  bool same =
      second.ok() && second.text == first.text && partsOf(second.pipeline).size() == parts.size();
  for (std::size_t i = 0; same && i < parts.size() && i < 10; ++i) {
    const auto a = keyOf(first.pipeline, parts[i], {}, {});
    const auto b = keyOf(second.pipeline, parts[i], {}, {});
    same = a && b && *a == *b;
  }
  if (same && drawGraph(first.pipeline).size() == first.pipeline.steps.size()) return 0;
  std::cerr << "not the same after printing:\n" << first.text;
  for (const dure::spec::Problem& problem : second.problems) std::cerr << problem.text() << "\n";
  std::abort();
}
