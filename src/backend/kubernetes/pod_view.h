#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace dure::kubernetes {

// What is of interest about the pod of a task.
struct PodView {
  std::string name;
  std::string task;
  int generation = 0;
  bool first = false;  // holds rank 0
  std::string node;
  std::string phase;
  bool deleting = false;
  // Why it does not run, in a few words; empty: it does, or is about to. Also why it has failed,
  // if its agent could not tell.
  std::string problem;
  bool by_program = false;  // that is because the program filled the memory that the pod may have
  // Waiting will not help: the image has no valid name, a thing it needs does not exist, or the
  // agent cannot be put there or started.
  bool hopeless = false;
  // No node will ever do, or a claim is missing, unless somebody changes that.
  bool unplaceable = false;
  // It may be an image that does not exist, or a registry that is away for a moment.
  bool doubtful = false;

  // Nothing of it runs, and nothing will: it has no node, or its kubelet has said so. That an
  // object is gone, or somebody calls it Failed, says nothing of the processes on a node that is
  // cut off.
  bool nothing_runs = false;

  bool ended() const { return phase == "Succeeded" || phase == "Failed"; }
};

PodView viewPod(const nlohmann::json& pod);

}  // namespace dure::kubernetes
