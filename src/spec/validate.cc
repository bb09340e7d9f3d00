#include "spec/validate.h"

#include <fmt/core.h>

#include <algorithm>
#include <initializer_list>
#include <set>
#include <string>

#include "base/text.h"
#include "spec/fields.h"
#include "spec/scalar.h"

namespace dure::spec {
namespace {

constexpr std::int64_t kMaxProcesses = 100'000;

class Validator {
 public:
  Validator(const Job& job, const FieldPlaces& places, std::vector<Finding>& findings)
      : job_(job), places_(places), findings_(findings) {}

  void run() {
    workers();
    split();
    roles();
    nodes();
    limits("resources", job_.resources);
    limits("kubernetes.manager", job_.kubernetes.manager);
    pullSecrets();
    program();
    native();
    volumes();
    checkpoint();
    rest();
  }

 private:
  bool sound(std::initializer_list<std::string_view> paths) const {
    return std::all_of(paths.begin(), paths.end(),
                       [&](std::string_view path) { return places_.sound(path); });
  }

  void report(const std::string& path, std::string message) {
    const Place place = places_.find(path);
    findings_.push_back({place.at, place.shown, std::move(message)});
  }

  // Says that a field is not there, unless the reason may be another mistake, such as its name.
  void reportMissing(const std::string& path, std::string message) {
    if (places_.allSound()) report(path, std::move(message));
  }

  const StrategyRules& rules() const { return rulesOf(job_.strategy); }

  // Of a section that belongs to other strategies.
  void refuseSection(const std::string& section, std::string_view owners) {
    if (!places_.has(section)) return;
    report(section,
           fmt::format("only {} jobs have it; this job's strategy is {}", owners, rules().word));
  }

  void workers() {
    if (!sound({"workers"})) return;
    const WorkerCount& workers = job_.workers;
    if (workers.min > workers.max) {
      report("workers.min",
             fmt::format("must not be above max, got {} above {}", workers.min, workers.max));
    }
    if (sound({"gpus"}) && job_.gpus > 0 && places_.has("workers")) {
      report("gpus", "leaves the number of workers to the plan; give either gpus or workers");
    }
    if (sound({"gpus", "resources"}) && job_.gpus > 0 && job_.resources.gpus > 0) {
      report("gpus", "leaves the GPUs of a task to the plan; give either gpus or resources.gpus");
    }
    if (!sound({"processes", "resources"})) return;
    const int processes = processesPerTask(job_);
    if (std::int64_t{workers.max} * processes > kMaxProcesses) {
      report("workers", fmt::format("{} workers of {} processes are more than {} processes",
                                    workers.max, processes, kMaxProcesses));
    }
  }

  // How `gpus` become tasks.
  void split() {
    if (!sound({"gpus", "even", "roles"})) return;
    if (job_.even && job_.gpus == 0) {
      report("even", "says how gpus are split; give gpus, the number of the whole job");
    }
    const auto refuse = [&](int count, const std::string& role) {
      if (job_.gpus == 0 || count == 0) return;
      report("roles." + role, "has no share of gpus; give workers and resources.gpus instead");
    };
    refuse(job_.roles.ps, "ps");
    refuse(job_.roles.evaluator, "evaluator");
  }

  void nodes() {
    if (!sound({"nodes"})) return;
    for (std::size_t i = 0; i < job_.nodes.affinity.size(); ++i) {
      const std::string problem = nodeRuleProblem(job_.nodes.affinity[i]);
      if (!problem.empty()) report(fmt::format("nodes.affinity[{}]", i), problem);
    }
    for (std::size_t i = 0; i < job_.nodes.tolerations.size(); ++i) {
      const Toleration& toleration = job_.nodes.tolerations[i];
      const std::string here = fmt::format("nodes.tolerations[{}]", i);
      if (toleration.op == TolerationTest::kExists && !toleration.value.empty()) {
        report(here, "has a value, which the operator Exists does not look at");
      }
      if (toleration.op == TolerationTest::kEqual && toleration.key.empty()) {
        report(here, "needs a key, or the operator Exists");
      }
    }
  }

  void limits(const std::string& where, const Resources& resources) {
    if (!sound({where})) return;
    const ResourceLimits& limits = resources.limits;
    if (limits.cpus > 0 && limits.cpus < resources.cpus) {
      report(where + ".limits.cpus", fmt::format("must not be below {}.cpus, got {} below {}",
                                                 where, limits.cpus, resources.cpus));
    }
    if (limits.memory > 0 && limits.memory < resources.memory) {
      report(where + ".limits.memory",
             fmt::format("must not be below {}.memory, got {} below {}", where,
                         formatBytes(limits.memory), formatBytes(resources.memory)));
    }
  }

  void pullSecrets() {
    if (!sound({"kubernetes"})) return;
    for (const std::string& name : job_.kubernetes.pull_secrets) {
      if (isObjectName(name)) continue;
      report("kubernetes.pull_secrets",
             fmt::format("must be names in Kubernetes, got \"{}\"", name));
    }
  }

  static std::string nodeRuleProblem(const NodeRule& rule) {
    switch (rule.op) {
      case LabelTest::kIn:
      case LabelTest::kNotIn:
        return rule.values.empty() ? "needs values to compare the label with" : "";
      case LabelTest::kExists:
      case LabelTest::kDoesNotExist:
        return rule.values.empty() ? "" : "has values, which its operator does not look at";
      case LabelTest::kGt:
      case LabelTest::kLt:
        break;
    }
    const bool number = rule.values.size() == 1 && readInteger(rule.values.front());
    return number ? "" : "needs one value, a whole number";
  }

  void roles() {
    if (!sound({"roles", "strategy"})) return;
    const Roles& roles = job_.roles;
    if (roles.evaluator > 0 && roles.chief == 0) report("roles.evaluator", "needs a chief");
    if (rules().roles) return;
    const auto refuse = [&](int count, const std::string& role) {
      if (count == 0) return;
      report("roles." + role, fmt::format("only {} jobs have one; this job's strategy is {}",
                                          strategiesWith(&StrategyRules::roles), rules().word));
    };
    refuse(roles.chief, "chief");
    refuse(roles.ps, "ps");
    refuse(roles.evaluator, "evaluator");
  }

  void program() {
    if (!sound({"program", "strategy"})) return;
    const std::vector<std::string>& command = job_.program.command;
    if (!command.empty() && command.front().empty()) {
      report("program.command", "the first word is empty, but names the program");
    }
    if (rules().trains && !command.empty()) {
      report("program.command", "a native job trains by itself and runs no program");
    }
    if (!rules().trains && command.empty()) {
      reportMissing("program.command",
                    "is missing; give a program to run, or a train section for a native job");
    }
  }

  void native() {
    if (!sound({"strategy", "train", "output", "workers"})) return;
    const Train& train = job_.train;
    if (!rules().trains) return refuseSection("train", strategiesWith(&StrategyRules::trains));
    if (!places_.has("train")) {
      reportMissing("train", "is missing; a native job needs it");
      return;
    }
    if (!train.model.name.empty() && !train.model.file.empty()) {
      report("train.model", "has a name and a file; give one of them");
    }
    if (train.model.name.empty() && train.model.file.empty()) {
      reportMissing("train.model", "is missing; a native job needs one");
    }
    if (train.data.path.empty())
      reportMissing("train.data.path", "is missing; a native job needs it");
    model();
    training();
  }

  // Of a number that is a part of something.
  void below(const std::string& path, double value, double limit) {
    if (value >= limit) report(path, fmt::format("must be below {}, got {}", limit, value));
  }

  void model() {
    const Model& model = job_.train.model;
    below("train.model.dropout", model.dropout, 1);
    const auto belongsTo = [&](const std::string& field, std::string_view owner, bool given) {
      if (given && model.name != owner && !(model.name.empty() && model.file.empty())) {
        report("train.model." + field, fmt::format("only the model {} has it", owner));
      }
    };
    belongsTo("filters", "convnet", !model.filters.empty());
    belongsTo("embedding", "text", model.embedding > 0);
    belongsTo("lstm", "text", model.lstm > 0);
    if (model.file.empty()) {
      belongsTo("vocabulary", "text", model.vocabulary > 0);
      return;
    }
    if (!model.hidden.empty()) report("train.model.hidden", "a model from a file has its own");
    if (model.dropout >= 0) report("train.model.dropout", "a model from a file has its own");
  }

  void training() {
    const Train& train = job_.train;
    below("train.optimizer.momentum", train.optimizer.momentum, 1);
    below("train.optimizer.beta1", train.optimizer.beta1, 1);
    below("train.optimizer.beta2", train.optimizer.beta2, 1);
    below("train.label_smoothing", train.label_smoothing, 1);
    below("train.sync.momentum", train.sync.momentum, 1);
    if (train.schedule.floor > 1) {
      report("train.schedule.floor",
             fmt::format("must be 1 or less, got {}", train.schedule.floor));
    }
    if (train.optimizer.nesterov && !(train.optimizer.momentum > 0)) {
      report("train.optimizer.nesterov", "needs a momentum");
    }
    if (!rulesOf(train.sync.mode).resizes && job_.workers.min != job_.workers.max) {
      report("train.sync",
             "with one-shot averaging the workers cannot become fewer; give one number of workers");
    }
    const std::string& output = job_.output;
    if (!output.empty() && !output.ends_with(".h5") && !output.ends_with(".pt") &&
        !output.ends_with(".safetensors")) {
      report("output", "must end in .h5 (Keras), .pt (TorchScript) or .safetensors");
    }
    if (train.model.file.ends_with(".pt") && output.ends_with(".h5")) {
      report("output", "a TorchScript module cannot be written as .h5; give .pt or .safetensors");
    }
  }

  void volumes() {
    if (!sound({"volumes"})) return;
    std::set<std::string> paths;
    if (!job_.checkpoint.claim.empty()) paths.insert(job_.checkpoint.path);
    for (std::size_t i = 0; i < job_.volumes.size(); ++i) {
      const Volume& volume = job_.volumes[i];
      const std::string here = fmt::format("volumes[{}]", i);
      if (volume.claim.empty() == volume.host.empty())
        report(here, "needs either a claim or a host");
      if (!volume.sub_path.empty() && volume.claim.empty()) {
        report(here + ".sub_path", "is a directory of a claim, and there is none");
      }
      if (!paths.insert(volume.path).second) {
        report(here + ".path", fmt::format("{} is the path of another volume, too", volume.path));
      }
    }
  }

  void checkpoint() {
    if (!sound({"checkpoint"})) return;
    const Checkpoint& checkpoint = job_.checkpoint;
    if (!checkpoint.claim.empty() && checkpoint.path.empty()) {
      reportMissing("checkpoint.path", "is missing; it says where the claim is mounted");
    } else if (!checkpoint.claim.empty() && !isVolumePath(checkpoint.path)) {
      report("checkpoint.path", "a claim is mounted there, so it must be without '..' and ':'");
    }
    if (!sound({"render"})) return;
    const Render& render = job_.render;
    if (render.inspector && render.deploy) {
      report("render.inspector",
             "cannot be combined with deploy: the volume mounts read-write on one node only; "
             "look at it when the training is over");
    }
    const auto needsClaim = [&](bool given, const std::string& field) {
      if (given && checkpoint.claim.empty()) {
        report("render." + field,
               "needs checkpoint.claim (checkpoint_pvc_name), the claim it is for");
      }
    };
    needsClaim(render.claim, "claim");
    needsClaim(render.inspector, "inspector");
    if (render.size == 0) report("render.size", "must be above 0");
  }

  void rest() {
    for (const StrategyRules& other : kStrategies) {
      const std::string section(other.section);
      if (section.empty() || section == rules().section) continue;
      if (sound({section, "strategy"})) refuseSection(section, other.word);
    }
    const Restarts& restarts = job_.restarts;
    if (sound({"restarts"}) && restarts.backoff > restarts.max_backoff) {
      const bool given = places_.has("restarts.backoff");
      report(given ? "restarts.backoff" : "restarts.max_backoff",
             fmt::format("backoff must not be above max_backoff, got {} above {}",
                         formatDuration(restarts.backoff), formatDuration(restarts.max_backoff)));
    }
    if (sound({"local"}) && !job_.local.networks.empty() && job_.local.address.empty()) {
      report("local.address", "is missing; programs in other networks need it");
    }
  }

  const Job& job_;
  const FieldPlaces& places_;
  std::vector<Finding>& findings_;
};

}  // namespace

void validateJob(const Job& job, const FieldPlaces& places, std::vector<Finding>& findings) {
  Validator(job, places, findings).run();
}

}  // namespace dure::spec
