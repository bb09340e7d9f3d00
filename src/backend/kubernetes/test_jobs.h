#pragma once

#include <gtest/gtest.h>

#include <string>

#include "backend/kubernetes/names.h"
#include "spec/load.h"

namespace dure::kubernetes {

inline const KubeRun kRun{.name_space = "team", .job = "train", .number = 2};

inline spec::Job jobOf(const std::string& text) {
  const spec::Loaded loaded = spec::loadJobText("/jobs/job.yaml", text, {});
  for (const spec::Problem& problem : loaded.problems) ADD_FAILURE() << problem.text();
  return loaded.job;
}

}  // namespace dure::kubernetes
