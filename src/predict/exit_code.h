#pragma once

#include <cstdio>

#include <fmt/core.h>

#include "base/result.h"

namespace dure::predict {

// As `dure` has them: docs/command-line.md.
inline constexpr int kDone = 0;
inline constexpr int kMistake = 2;
inline constexpr int kInfrastructureFailed = 3;

// Says why, and chooses the code by what kind of failure it is.
inline int failWith(const Error& error) {
  fmt::print(stderr, "dure-server: {}\n", error.message());
  const bool mistake = error.code() == Code::kInvalid || error.code() == Code::kNotFound ||
                       error.code() == Code::kExists;
  return mistake ? kMistake : kInfrastructureFailed;
}

}  // namespace dure::predict
