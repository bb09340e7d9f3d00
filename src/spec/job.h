#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/clock.h"
#include "spec/strategies.h"
#include "spec/sync_modes.h"

// The job as plain data: what a person wrote, with every default filled in. What each field means,
// how it is written and which values it takes is said once, in fields.cc.
namespace dure::spec {

enum class HorovodController { kGloo, kMpi };
// Whose end is the end of the job: `kAuto` leaves it to the strategy.
enum class Success { kAuto, kAll, kChief };

// Fixed where both are equal. The gang starts with `max` and goes on with no fewer than `min`.
struct WorkerCount {
  int min = 1;
  int max = 1;
  bool operator==(const WorkerCount&) const = default;
};

// How many tasks of each role there are beside the workers.
struct Roles {
  int chief = 0;
  int ps = 0;
  int evaluator = 0;
  bool operator==(const Roles&) const = default;
};

// The most that a container may use.
struct ResourceLimits {
  double cpus = 0;          // 0: no limit
  std::int64_t memory = 0;  // bytes; 0: what was asked for, if anything was
  bool operator==(const ResourceLimits&) const = default;
};

// Of one task.
struct Resources {
  double cpus = 0;          // 0: no request
  std::int64_t memory = 0;  // bytes; 0: no request
  int gpus = 0;
  ResourceLimits limits;  // in a cluster
  bool operator==(const Resources&) const = default;
};

struct Program {
  std::vector<std::string> command;
  std::string image;
  std::string pull;  // Always, IfNotPresent or Never; empty: as the cluster has it
  std::string workdir = ".";
  bool ship = true;                                  // `workdir` is sent along to a cluster
  std::int64_t ship_limit = std::int64_t{64} << 20;  // bytes of all its files
  int user = 1000;                                   // of the program in a pod; 0: root
  std::vector<std::string> data;  // what it reads; a cluster gets a copy, at the same paths
  bool operator==(const Program&) const = default;
};

struct Horovod {
  HorovodController controller = HorovodController::kGloo;
  bool operator==(const Horovod&) const = default;
};

// What is set to 0 or empty follows from the model and the data.
struct Model {
  std::string name;     // built in: convnet, mlp, text, linear
  std::string file;     // or a TorchScript module or Keras model of one's own
  std::string weights;  // a safetensors file to begin with; empty: drawn by a seed
  std::vector<int> hidden;
  std::vector<int> filters;  // convnet
  double dropout = -1;       // below 0: the model's own
  int embedding = 0;         // text
  int lstm = 0;              // text; 0: the words are pooled
  int vocabulary = 0;        // text, or a file that takes words
  std::uint64_t seed = 0;    // of the weights that are drawn; 0: the training's
  bool operator==(const Model&) const = default;
};

struct Data {
  std::string path;
  std::string format;
  std::string train;
  std::string test;
  std::string samples;
  std::string labels;
  std::vector<int> shape;
  double scale = 0;
  double mean = 0;
  double std = 1;
  int classes = -1;  // 0: a regression; below 0: as the labels have
  bool operator==(const Data&) const = default;
};

struct Optimizer {
  std::string name = "adam";
  double lr = 0.001;
  double momentum = 0;
  bool nesterov = false;
  double weight_decay = 0;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  bool operator==(const Optimizer&) const = default;
};

enum class ScheduleShape { kConstant, kLinear, kCosine, kStep };

// How the learning rate changes over the training.
struct Schedule {
  ScheduleShape shape = ScheduleShape::kConstant;
  int warmup = 0;      // steps
  double floor = 0;    // the part of the rate that linear and cosine end at
  double gamma = 0.1;  // kStep multiplies by it
  int every = 1;       // epochs, with kStep
  bool scale_with_workers = false;
  bool operator==(const Schedule&) const = default;
};

struct EarlyStopping {
  int patience = 0;  // epochs; 0: never
  double min_delta = 0;
  bool operator==(const EarlyStopping&) const = default;
};

enum class WireType { kFloat32, kBFloat16, kFloat16 };

struct Sync {
  SyncMode mode = SyncMode::kStep;
  int every = 0;        // steps between averages, with kEvery
  double momentum = 0;  // of the outer Nesterov step, with kEvery
  double lr = 1;        // of the outer step, with kEvery
  bool operator==(const Sync&) const = default;
};

// Native training only.
struct Train {
  Model model;
  Data data;
  int epochs = 1;
  int steps = 0;    // 0: as many as the epochs have
  int batch = 100;  // of one worker
  int accumulate = 1;
  std::uint64_t seed = 1;
  Optimizer optimizer;
  Schedule schedule;
  double clip = 0;  // 0: not
  double label_smoothing = 0;
  EarlyStopping early_stopping;
  Sync sync;
  WireType wire = WireType::kFloat32;
  bool operator==(const Train&) const = default;
};

struct Checkpoint {
  std::string path;
  std::string claim;     // a PersistentVolumeClaim that the chief has at `path`
  int every = 0;         // steps; 0: only what the program does by itself
  Duration interval{0};  // 0: by steps only
  int keep = 3;
  bool operator==(const Checkpoint&) const = default;
};

struct Restarts {
  int limit = 3;
  Duration backoff{200};
  Duration max_backoff{5'000};
  bool operator==(const Restarts&) const = default;
};

// 0 means never.
struct Timeouts {
  Duration start{300'000};      // from asking for the tasks until the last of them has joined
  Duration stop{10'000};        // from SIGTERM to SIGKILL
  Duration heartbeat{30'000};   // silence after which an agent is lost
  Duration progress{0};         // silence after which a rank is hung
  Duration autoscale{900'000};  // that pods ask for nodes until they are withdrawn
  bool operator==(const Timeouts&) const = default;
};

enum class VolumeTasks { kAll, kChief };

struct Volume {
  std::string path;      // where the program sees it; a relative one begins at the workdir
  std::string claim;     // a PersistentVolumeClaim, or
  std::string host;      // a directory of the machine
  std::string sub_path;  // the directory of the claim that is mounted; empty: all of it
  bool read_only = false;
  VolumeTasks tasks = VolumeTasks::kAll;
  bool operator==(const Volume&) const = default;
};

enum class LabelTest { kIn, kNotIn, kExists, kDoesNotExist, kGt, kLt };

// What a label of a node must be like, as in the node affinity of Kubernetes.
struct NodeRule {
  std::string key;
  LabelTest op = LabelTest::kIn;
  std::vector<std::string> values;
  bool operator==(const NodeRule&) const = default;
};

enum class TolerationTest { kEqual, kExists };

// Which taints of nodes the job puts up with, as in Kubernetes.
struct Toleration {
  std::string key;  // empty: all of them
  TolerationTest op = TolerationTest::kEqual;
  std::string value;
  std::string effect;  // empty: all of them
  bool operator==(const Toleration&) const = default;
};

// Where tasks may be placed.
struct NodeChoice {
  std::map<std::string, std::string> selector;
  std::vector<NodeRule> affinity;  // all of them hold
  std::vector<Toleration> tolerations;
  std::string gpu = "nvidia.com/gpu";                // the resource that is a GPU
  std::string zone = "topology.kubernetes.io/zone";  // the label that names a node's zone
  std::string rack = "topology.kubernetes.io/rack";  // and its rack
  bool operator==(const NodeChoice&) const = default;
};

// What a run keeps in a cluster where the job names no volume for it.
struct Storage {
  std::string storage_class;                   // empty: the cluster's default
  std::int64_t size = std::int64_t{10} << 30;  // bytes
  std::string access;  // ReadWriteOnce or ReadWriteMany; empty: as the job needs it
  bool keep = false;   // when the run is removed
  std::int64_t data_limit = std::int64_t{1} << 30;  // of data that is sent along
  bool operator==(const Storage&) const = default;
};

// What only a run in a cluster has.
struct Cluster {
  std::string account;                    // of the manager; empty: one is made for the run
  std::vector<std::string> pull_secrets;  // for the images of all its pods
  // Of the manager; and of a pod that looks into volumes.
  Resources manager{.cpus = 0.05,
                    .memory = std::int64_t{64} << 20,
                    .limits = {.cpus = 1, .memory = std::int64_t{512} << 20}};
  Storage storage;
  bool operator==(const Cluster&) const = default;
};

// Which pods are deleted when a run on Kubernetes has ended well.
enum class Clean { kNone, kWorkers, kAll };

// What `dure render` prints.
struct Render {
  bool deploy = true;                          // the tasks and their services
  bool claim = false;                          // the claim for checkpoints
  bool inspector = false;                      // a pod to look into that claim
  std::int64_t size = std::int64_t{10} << 30;  // bytes of a claim
  std::string storage_class;                   // of a claim; empty: the cluster's default
  bool operator==(const Render&) const = default;
};

// How the local backend plays several hosts.
struct Local {
  std::vector<std::string> networks;  // network namespaces; tasks are assigned round-robin
  std::string address;                // where their agents reach the coordinator
  bool operator==(const Local&) const = default;
};

struct Job {
  std::string name;
  Strategy strategy = Strategy::kPlain;
  WorkerCount workers;
  int gpus = 0;       // of the whole job, the split left to the plan; 0: workers × resources.gpus
  bool even = false;  // with `gpus`: the same number on every node
  bool autoscale = false;  // a gang without a place asks the cluster's autoscaler for nodes
  Roles roles;
  int processes = 0;  // of one task; 0: one per GPU, or 1
  Resources resources;
  NodeChoice nodes;
  Cluster kubernetes;
  Program program;
  std::map<std::string, std::string> env;
  int port = 0;  // the first port of the rendezvous; 0: chosen
  Horovod horovod;
  Train train;
  Checkpoint checkpoint;
  std::string output;
  std::vector<Volume> volumes;
  Restarts restarts;
  Timeouts timeouts;
  Success success = Success::kAuto;
  Duration deadline{0};  // of the whole job, restarts included; 0: none
  Clean clean = Clean::kWorkers;
  Duration ttl{0};  // from the end of a run until its objects are deleted; 0: never
  Render render;
  Local local;
  bool operator==(const Job&) const = default;
};

// How many processes one task holds: `processes`, or one per GPU, or 1.
int processesPerTask(const Job& job);

// Whether Dure's own trainer is what runs, and not a program of the job.
bool runsTrainer(const Job& job);

// A file or directory that a job names.
struct NamedPath {
  const char* field;
  std::string path;
};
// What the trainer reads.
std::vector<NamedPath> trainingInputs(const Train& train);

// The job's volumes, that of its checkpoints among them.
std::vector<Volume> allVolumes(const Job& job);

}  // namespace dure::spec
