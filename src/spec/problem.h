#pragma once

#include <string>

namespace dure::spec {

// One mistake in a job: where it is and what to do about it.
struct Problem {
  std::string file;  // or what was typed: "--set workers"
  int line = 0;      // from 1; 0: of no particular line
  int column = 0;
  std::string field;  // its path; empty: of no particular field
  std::string message;

  // "job.yaml:7:3: workers: must be 1 or more, got -2", without a line "--set workers: must be …".
  std::string text() const;
};

}  // namespace dure::spec
