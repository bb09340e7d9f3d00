#pragma once

#include <cstdint>
#include <string>

#include "plan/inventory.h"
#include "spec/job.h"

namespace dure::plan {

// What a job asks of a cluster. Either tasks that are all alike, or GPUs of which every node used
// gives a share, with one task on each.
struct Request {
  // Of one task; 0: it does not matter.
  std::int64_t millicores = 0;
  std::int64_t memory = 0;
  std::int64_t gpus = 0;
  // The whole gang: as many as fit, from `fewest` to `most`.
  int fewest = 1;
  int most = 1;

  int split = 0;  // GPUs of the whole job; 0: tasks are asked for
  bool even = false;

  spec::NodeChoice nodes;
};

// The gang of the job: chief, workers, parameter servers and evaluator, which all ask for the same.
// MPI's launcher asks for nothing.
Request makeRequest(const spec::Job& job);

// Why the node is not for this job: "not ready", "label disk is not ssd"; empty if it is.
std::string refusal(const spec::NodeChoice& nodes, const Node& node);

// The same, as far as its labels are why: those do not change by themselves.
std::string labelRefusal(const spec::NodeChoice& nodes, const Node& node);

// How many tasks of the request the node takes.
std::int64_t tasksThatFit(const Request& request, const Node& node);

// "2 CPUs, 4Gi and 1 GPU": of one task; empty if it asks for nothing.
std::string describeTask(const Request& request);

}  // namespace dure::plan
