#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "spec/job.h"
#include "spec/problem.h"
#include "spec/tree.h"

namespace dure::spec {

// One field given on the command line. A string is read as YAML ("2", "{min: 2, max: 4}", "[a,
// b]"), but taken exactly as it is for a variable of `env`; a list of words is always taken exactly
// as it is.
struct Override {
  std::string origin;  // what the person typed: "--set train.epochs", "--workers"
  std::string path;
  std::variant<std::string, std::vector<std::string>> value;
};

// The job with all defaults filled in, of use only if there are no problems; they are in the order
// of the file, then of the overrides.
struct Loaded {
  Job job;
  std::vector<Problem> problems;
  bool ok() const { return problems.empty(); }
};

inline constexpr std::size_t kMaxJobFileSize = 1u << 20;
// More problems than these are counted, not printed.
inline constexpr std::size_t kMaxProblems = 50;

// `file` is where the text came from: its name is in the problems, its directory is where a
// relative program.workdir begins. Empty: from nowhere, the current directory.
Loaded loadJobText(const std::string& file, std::string_view text,
                   const std::vector<Override>& overrides);
// "-" is standard input. A file above kMaxJobFileSize is not read.
Loaded loadJobFile(const std::string& path, const std::vector<Override>& overrides);
// The job in a piece of another document, for which the directory of `file` is where a relative
// program.workdir begins.
Job loadJobTree(TreeNode root, const std::string& file, std::vector<Finding>& findings);

// In the order of the file, then of the overrides, each once, and fit to be shown. `origins` are
// the names of the sources after the file.
std::vector<Problem> toProblems(std::vector<Finding> findings, const std::string& file,
                                const std::vector<std::string>& origins);

// A job without a file.
Loaded loadJobOverrides(const std::vector<Override>& overrides);

}  // namespace dure::spec
