#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "spec/load.h"

namespace dure::spec {

inline std::vector<std::string> lines(const Loaded& loaded) {
  std::vector<std::string> texts;
  for (const Problem& problem : loaded.problems) texts.push_back(problem.text());
  return texts;
}

// The problems of a job file as a person sees them.
inline std::vector<std::string> problemsOf(const std::string& text,
                                           const std::vector<Override>& overrides = {}) {
  return lines(loadJobText("job.yaml", text, overrides));
}

inline Job jobOf(const std::string& text, const std::vector<Override>& overrides = {}) {
  const Loaded loaded = loadJobText("/jobs/job.yaml", text, overrides);
  EXPECT_THAT(lines(loaded), testing::IsEmpty()) << text;
  return loaded.job;
}

inline Override set(const std::string& path, const std::string& value) {
  return {"--set " + path, path, value};
}

}  // namespace dure::spec
