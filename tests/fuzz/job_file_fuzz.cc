// Any bytes are either refused with a reason or become a job, and every job that was accepted is
// printed as a file that is accepted and means the same.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string_view>

#include "spec/load.h"
#include "spec/print.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const dure::spec::Loaded first = dure::spec::loadJobText("job.yaml", text, {});
  if (!first.ok()) return 0;
  const std::string printed = dure::spec::printJob(first.job);
  const dure::spec::Loaded second = dure::spec::loadJobText("job.yaml", printed, {});
  if (second.ok() && second.job == first.job) return 0;
  std::cerr << "not the same after printing:\n" << printed;
  for (const dure::spec::Problem& problem : second.problems) std::cerr << problem.text() << "\n";
  std::abort();
}
