#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"

namespace dure::gang {

// Where one task can be reached by the others.
struct Endpoint {
  std::string address;
  int port = 0;
};

// What a backend says about its machine or cluster before anything starts. The environment of every
// rank is a function of the job and of this, so it can be printed beforehand.
struct Site {
  std::string run;                        // the run's name: "train.2"; empty: there is no record
  std::string run_id;                     // of this run and no other, whatever their names
  std::map<std::string, Endpoint> tasks;  // by task name
  std::string address;                    // where tasks reach the coordinator
  std::string listen;                     // the same as a number, if `address` is a name
  // Addresses are names that DNS learns of only when their tasks run.
  bool names = false;
  int store_port = 0;               // of the key-value server that Horovod needs
  std::string interface;            // that carries the addresses: "lo", "eth0"
  std::string agent;                // the agent program, as tasks see it
  std::string trainer;              // and the one of native jobs
  std::string directory;            // tasks find their own files in directory/TASK
  std::string workdir;              // where programs start
  bool one_machine = false;         // tasks share a file system and a host name
  int cores = 0;                    // shared by all tasks; 0: each has its own
  bool root = false;                // tasks run as root, which mpirun refuses unless told
  std::set<std::string> inherited;  // variables that programs get from the outside
  std::map<std::string, std::string>
      gpus;  // per task: the GPUs it may see, where that is ours to say
  // Agents are reached over a network that may fail and that others share: what they say is
  // encrypted, and one that has not heard of the coordinator for so long ends. 0: neither.
  Duration lease{0};

  std::string taskDirectory(const std::string& task) const { return directory + "/" + task; }
};

}  // namespace dure::gang
