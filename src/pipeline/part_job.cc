#include "pipeline/part_job.h"

#include <filesystem>

#include "pipeline/references.h"
#include "spec/load.h"

namespace dure::pipeline {
namespace {

namespace fs = std::filesystem;

Lookup valuesOf(const Step& step, const Part& part, const Folders& folders) {
  return [&step, part, folders](const std::string& name) -> std::optional<std::string> {
    if (step.fans_out) {
      if (name == "index") return std::to_string(part.index);
      if (name == "count") return std::to_string(step.items.size());
      if (name == "item") return escape(step.items.at(static_cast<std::size_t>(part.index)));
    }
    if (name == "out") return folders.out;
    if (name == "scratch") return folders.scratch;
    if (name == "volume") return folders.volume;
    if (name == "reports") return folders.reports;
    if (name == "run") return folders.run;
    if (const auto other = stepOfReference(name)) return folders.volume + "/" + *other;
    return std::nullopt;
  };
}

std::string filled(const std::string& text, const Lookup& lookup, bool for_shell = false) {
  return unescape(substitute(text, lookup, for_shell));
}

std::vector<std::string> filledCommand(const std::vector<std::string>& command,
                                       const Lookup& lookup) {
  std::vector<std::string> words;
  const bool line = command.size() == 3 && command[0] == "sh" && command[1] == "-c";
  for (std::size_t i = 0; i < command.size(); ++i) {
    words.push_back(filled(command[i], lookup, line && i == 2));
  }
  return words;
}

spec::Job commandJob(const Pipeline& pipeline, const Step& step, const Lookup& lookup) {
  spec::Job job;
  const bool service = step.kind == StepKind::kService;
  job.program.command = filledCommand(service ? step.service.command : step.command, lookup);
  job.program.image = step.image.empty() ? pipeline.image : step.image;
  job.program.workdir = pipeline.workdir;
  // What lies elsewhere on this machine is sent to a cluster by itself.
  for (const std::string& input : step.inputs) {
    const fs::path path = fs::path(pipeline.workdir) / filled(input, lookup);
    const std::string inside = path.lexically_relative(pipeline.workdir).string();
    if (inside.empty() || inside.starts_with("..")) {
      job.program.data.push_back(path.lexically_normal().string());
    }
  }
  job.resources = step.resources;
  for (const auto& [name, value] : step.env) job.env[name] = filled(value, lookup);
  // Each attempt of a command begins with nothing; a service goes on where it was.
  job.restarts.limit = service ? step.retries : 0;
  job.deadline = service ? Duration(0) : step.timeout;
  return job;
}

}  // namespace

Folders symbolicFolders() {
  return {.run = "run",
          .volume = "/volume",
          .out = "/out",
          .scratch = "/scratch",
          .reports = "/reports"};
}

spec::Job jobOf(const Pipeline& pipeline, const Part& part, const Folders& folders,
                std::vector<spec::Finding>& findings, std::vector<spec::Problem>& problems) {
  const Step& step = pipeline.steps.at(part.step);
  const Lookup lookup = valuesOf(step, part, folders);
  spec::Job job;
  if (step.kind != StepKind::kJob) {
    job = commandJob(pipeline, step, lookup);
  } else if (!step.job_file.empty()) {
    std::vector<spec::Override> overrides;
    for (const auto& [path, value] : step.set) {
      overrides.push_back({"steps." + step.name + ".set." + path, path, filled(value, lookup)});
    }
    const fs::path file = fs::path(pipeline.workdir) / filled(step.job_file, lookup);
    spec::Loaded loaded = spec::loadJobFile(file.lexically_normal().string(), overrides);
    problems.insert(problems.end(), loaded.problems.begin(), loaded.problems.end());
    job = std::move(loaded.job);
  } else {
    spec::TreeNode tree = step.job;
    substituteTree(tree, lookup);
    unescapeTree(tree);
    job = spec::loadJobTree(std::move(tree), pipeline.workdir + "/pipeline.yaml", findings);
  }
  job.name = part.name;
  if (job.kubernetes == spec::Cluster{}) job.kubernetes = pipeline.kubernetes;
  if (step.kind == StepKind::kJob && step.timeout.count() > 0) job.deadline = step.timeout;
  return job;
}

Result<spec::Job> jobOf(const Pipeline& pipeline, const Part& part, const Folders& folders) {
  std::vector<spec::Finding> findings;
  std::vector<spec::Problem> problems;
  spec::Job job = jobOf(pipeline, part, folders, findings, problems);
  if (!findings.empty()) {
    return Error(Code::kInvalid, findings.front().field + ": " + findings.front().message);
  }
  if (!problems.empty()) return Error(Code::kInvalid, problems.front().text());
  return job;
}

std::vector<std::string> inputsOf(const Pipeline& pipeline, const Part& part,
                                  const Folders& folders) {
  const Step& step = pipeline.steps.at(part.step);
  const Lookup lookup = valuesOf(step, part, folders);
  std::vector<std::string> paths;
  const auto add = [&](const std::string& path, const std::string& directory) {
    const std::string whole = (fs::path(directory) / path).lexically_normal().string();
    if (!whole.starts_with(folders.volume + "/")) paths.push_back(whole);
  };
  for (const std::string& input : step.inputs) add(filled(input, lookup), pipeline.workdir);
  if (step.kind != StepKind::kJob) return paths;
  if (const auto job = jobOf(pipeline, part, folders)) {
    for (const auto& [field, path] : spec::trainingInputs(job->train)) {
      add(path, job->program.workdir);
    }
  }
  return paths;
}

}  // namespace dure::pipeline
