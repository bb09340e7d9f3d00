#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "spec/load.h"

namespace dure::runs {

// A job of this name that does nothing.
inline spec::Job jobNamed(const std::string& name) {
  spec::Loaded loaded = spec::loadJobOverrides(
      {{"--", "program.command", std::vector<std::string>{"true"}}, {"--name", "name", name}});
  EXPECT_TRUE(loaded.ok());
  return loaded.job;
}

}  // namespace dure::runs
