#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/clock.h"
#include "spec/job.h"
#include "spec/tree.h"

// A pipeline as plain data: what a person wrote, with every parameter filled in. What each field
// means and how it is written is said once, in pipeline_fields.cc.
namespace dure::pipeline {

enum class ParameterType { kAuto, kWhole, kNumber, kText, kFlag, kList };

struct Parameter {
  std::string name;
  spec::TreeNode value;  // the default, or what was set; nothing: it must be set
  ParameterType type = ParameterType::kAuto;
  std::string doc;
};

enum class StepKind { kCommand, kJob, kService };
// "command", "job", "service".
std::string kindName(StepKind kind);

// Something that stays when the pipeline has ended.
struct Service {
  std::vector<std::string> command;
  int port = 0;       // where it answers; 0: it is ready as soon as it runs
  std::string ready;  // the path that answers 200 when it is ready; empty: a connection is enough
  std::string type = "LoadBalancer";  // of its Service in a cluster
};

struct Step {
  std::string name;
  StepKind kind = StepKind::kCommand;
  std::vector<std::string> needs;  // also those whose output it names; in the order of the file
  std::vector<std::string> command;
  std::string job_file;                    // with kJob: a file, or
  spec::TreeNode job;                      // the fields themselves
  std::map<std::string, std::string> set;  // overrides of the file's fields
  Service service;
  bool fans_out = false;           // runs once for each of
  std::vector<std::string> items;  // these
  std::vector<std::string> inputs;
  int retries = 0;
  Duration timeout{0};  // 0: none
  std::string image;
  spec::Resources resources;
  double cpus = 1;  // that a part takes: what it asks for, one at least; a job that for each worker
  std::map<std::string, std::string> env;
  std::map<std::string, std::string> labels;

  // As written, before load() has made sense of them.
  spec::TreeNode needs_as_written;
  spec::TreeNode job_as_written;
  spec::TreeNode each_as_written;
};

struct Pipeline {
  std::string name;
  std::string workdir = ".";
  int parallel = 0;          // parts at once; 0: as many as the machine has processors for
  std::string image;         // of steps that name none; empty: Dure's own
  std::string claim;         // that steps share in a cluster; empty: one of the pipeline's own
  spec::Cluster kubernetes;  // of steps that are no jobs, and of jobs that say nothing of it
  std::vector<Parameter> parameters;
  std::vector<Step> steps;

  // nullptr if there is none.
  const Step* find(const std::string& name) const;
};

// A step that fans out has one part for each of its items, any other step has one.
struct Part {
  std::size_t step = 0;
  int index = 0;
  std::string name;    // of its runs: "train-3", "copy"
  std::string folder;  // of its output, in the shared directory: "train/3", "copy"
};
// In the order of the file.
std::vector<Part> partsOf(const Pipeline& pipeline);

}  // namespace dure::pipeline
