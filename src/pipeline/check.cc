#include "pipeline/check.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include <fmt/core.h>

#include "base/files.h"
#include "base/text.h"
#include "pipeline/graph.h"
#include "pipeline/parameters.h"
#include "pipeline/part_job.h"
#include "pipeline/references.h"
#include "spec/catalog.h"
#include "spec/scalar.h"

namespace dure::pipeline {
namespace {

using spec::Finding;
using spec::TreeNode;

constexpr int kMostParts = 10'000;

std::string suggestion(const std::string& word, const std::vector<std::string>& known) {
  auto near = closest(word, known);
  // Or one that begins alike.
  std::size_t longest = std::max<std::size_t>(3, word.size() / 2);
  for (const std::string& name : known) {
    const auto differ = std::mismatch(word.begin(), word.end(), name.begin(), name.end());
    const auto same = static_cast<std::size_t>(differ.first - word.begin());
    if (near || same < longest) continue;
    longest = same + 1;
    near = name;
  }
  return near ? fmt::format("; did you mean '{}'?", *near) : "";
}

std::vector<std::string> stepNamesIn(const TreeNode& root) {
  std::vector<std::string> names;
  if (const TreeNode* steps = root.find("steps")) {
    for (const TreeNode& step : steps->children) names.push_back(step.key);
  }
  return names;
}

bool isPartVariable(const std::string& name) {
  return name == "index" || name == "item" || name == "count";
}

bool isBuiltIn(const std::string& name) {
  return isPartVariable(name) || name == "out" || name == "scratch" || name == "volume" ||
         name == "reports" || name == "run";
}

// Of the step in the tree, which has been parsed.
const TreeNode& nodeOf(const TreeNode& root, const Step& step) {
  return *root.find("steps")->find(step.name);
}

class Checker {
 public:
  Checker(Pipeline& pipeline, const TreeNode& root, const spec::FieldPlaces& places,
          std::vector<Finding>& findings, std::vector<spec::Problem>& others)
      : pipeline_(pipeline),
        root_(root),
        places_(places),
        findings_(findings),
        others_(others),
        names_(stepNamesIn(root)) {}

  void check() {
    if (pipeline_.steps.empty() && places_.sound("steps")) {
      const spec::Place place = places_.find("steps");
      findings_.push_back({place.at, "steps", "has no steps"});
    }
    for (Step& step : pipeline_.steps) {
      readKind(step);
      readEach(step);
      readNeeds(step);
      checkInputs(step);
    }
    checkCycles();
    checkPartNames();
    for (Step& step : pipeline_.steps) {
      step.cpus = std::max(1.0, step.resources.cpus);
      if (step.kind == StepKind::kJob && canBeFilled(step)) checkJob(step);
    }
  }

 private:
  static std::string pathOf(const Step& step, const std::string& field) {
    return fmt::format("steps.{}.{}", step.name, field);
  }

  void add(const Step& step, const std::string& field, std::string message) {
    const spec::Place place = places_.find(pathOf(step, field));
    findings_.push_back({place.at, pathOf(step, field), std::move(message)});
  }

  void readKind(Step& step) {
    const TreeNode& node = nodeOf(root_, step);
    std::vector<std::string> given;
    for (const char* kind : {"command", "job", "service"}) {
      if (node.find(kind) != nullptr) given.emplace_back(kind);
    }
    if (given.size() != 1) {
      findings_.push_back({node.key_at, "steps." + step.name,
                           given.empty() ? "must have a command, a job or a service"
                                         : "must have only one of " + join(given, " and ")});
      return;
    }
    if (given[0] == "job") step.kind = StepKind::kJob;
    if (given[0] == "service") step.kind = StepKind::kService;
    if (step.kind == StepKind::kJob) {
      step.job = step.job_as_written;
      if (step.job.isScalar()) step.job_file = step.job.text;
    }
    const auto words = step.kind == StepKind::kCommand ? &step.command : &step.service.command;
    const std::string field = step.kind == StepKind::kCommand ? "command" : "service.command";
    if (step.kind != StepKind::kJob && places_.sound(pathOf(step, field)) &&
        (words->empty() || words->front().empty())) {
      add(step, field, "must not be empty");
    }
    if (!step.set.empty() && step.job_file.empty()) {
      add(step, "set", "needs a job file; an inline job says it itself");
    }
    if (step.kind == StepKind::kService && node.find("each") != nullptr) {
      add(step, "each", "a service runs once");
    }
    if (step.kind == StepKind::kJob) {
      for (const char* field_of_commands : {"image", "resources", "env"}) {
        if (node.find(field_of_commands) == nullptr) continue;
        add(step, field_of_commands, "is for commands and services; a job says it itself");
      }
    }
  }

  void readEach(Step& step) {
    const TreeNode& each = step.each_as_written;
    if (each.isNothing() || !places_.sound(pathOf(step, "each"))) return;
    step.fans_out = true;
    if (each.kind == TreeNode::Kind::kList) {
      for (const TreeNode& item : each.children) {
        if (item.isScalar()) {
          step.items.push_back(unescape(item.text));
        } else {
          add(step, "each", "must be a list of texts");
        }
      }
    } else {
      const auto count = each.quoted ? std::nullopt : spec::readInteger(each.text);
      if (!count || *count < 1 || *count > kMostParts) {
        findings_.push_back({each.at, pathOf(step, "each"),
                             fmt::format("must be a whole number from 1 to {}, or a list of texts, "
                                         "got {}",
                                         kMostParts, spec::describeNode(each))});
        return;
      }
      for (int i = 0; i < *count; ++i) step.items.push_back(std::to_string(i));
    }
    if (step.items.empty()) add(step, "each", "must not be empty");
    if (step.items.size() > kMostParts) {
      add(step, "each", fmt::format("must have {} items or fewer", kMostParts));
    }
  }

  void readNeeds(Step& step) {
    const TreeNode& node = nodeOf(root_, step);
    std::set<std::string> needed;
    const auto need = [&](const TreeNode& word) {
      if (!word.isScalar()) {
        findings_.push_back({word.at, pathOf(step, "needs"),
                             "must be a list of texts, got " + spec::describeNode(word)});
      } else if (std::find(names_.begin(), names_.end(), word.text) == names_.end()) {
        findings_.push_back(
            {word.at, pathOf(step, "needs"),
             fmt::format("no step '{}'{}", word.text, suggestion(word.text, names_))});
      } else if (word.text == step.name) {
        findings_.push_back({word.at, pathOf(step, "needs"), "a step cannot need itself"});
      } else {
        needed.insert(word.text);
      }
    };
    if (step.needs_as_written.isScalar()) need(step.needs_as_written);
    for (const TreeNode& word : step.needs_as_written.children) need(word);
    forEachScalar(node, "steps." + step.name, [&](const TreeNode& scalar, const std::string& path) {
      for (const std::string& name : referencesIn(scalar.text)) {
        const auto other = stepOfReference(name);
        if (other && *other == step.name) {
          findings_.push_back(
              {scalar.at, path, "a step cannot need itself; its output is ${{ out }}"});
        } else if (other && std::find(names_.begin(), names_.end(), *other) != names_.end()) {
          needed.insert(*other);
        }
        if (isPartVariable(name) && node.find("each") == nullptr) {
          findings_.push_back({scalar.at, path, fmt::format("'{}' is for steps with each", name)});
        }
      }
    });
    for (const std::string& name : names_) {
      if (needed.contains(name)) step.needs.push_back(name);
    }
  }

  // Those that other steps make, or that differ from part to part, are looked at when they are
  // needed.
  void checkInputs(const Step& step) {
    for (const std::string& input : step.inputs) {
      if (!referencesIn(input).empty()) continue;
      const auto path = std::filesystem::path(pipeline_.workdir) / unescape(input);
      if (!fileExists(path.string())) {
        add(step, "inputs", fmt::format("no file or directory {}", path.string()));
      }
    }
  }

  void checkCycles() {
    const std::vector<std::string> cycle = findCycle(pipeline_);
    if (cycle.empty()) return;
    findings_.push_back({places_.find(fmt::format("steps.{}.needs", cycle.front())).at,
                         fmt::format("steps.{}.needs", cycle.front()),
                         "the steps wait for each other: " + join(cycle, " → ")});
  }

  void checkPartNames() {
    std::set<std::string> seen;
    for (const Part& part : partsOf(pipeline_)) {
      if (seen.insert(part.name).second) continue;
      const Step& step = pipeline_.steps[part.step];
      findings_.push_back({nodeOf(root_, step).key_at, "steps." + step.name,
                           fmt::format("another step has a part named {}", part.name)});
    }
  }

  // A job that names what does not exist has been told already.
  bool canBeFilled(const Step& step) const {
    bool known = places_.sound(pathOf(step, "job")) && places_.sound(pathOf(step, "each"));
    forEachScalar(nodeOf(root_, step), "", [&](const TreeNode& scalar, const std::string&) {
      for (const std::string& name : referencesIn(scalar.text)) {
        known = known && (isBuiltIn(name) || stepOfReference(name));
      }
    });
    return known && (!step.fans_out || !step.items.empty());
  }

  void checkJob(Step& step) {
    const std::vector<Part> parts = partsOf(pipeline_);
    const auto part = std::find_if(parts.begin(), parts.end(), [&](const Part& p) {
      return pipeline_.steps[p.step].name == step.name;
    });
    std::vector<Finding> inside;
    const spec::Job job = jobOf(pipeline_, *part, symbolicFolders(), inside, others_);
    step.cpus = std::max(1.0, job.resources.cpus) * job.workers.max;
    const TreeNode* node = nodeOf(root_, step).find("job");
    for (Finding& finding : inside) {
      if (finding.at.line == 0) finding.at = node->key_at;
      finding.field = spec::joinPath(pathOf(step, "job"), finding.field);
      findings_.push_back(std::move(finding));
    }
  }

  Pipeline& pipeline_;
  const TreeNode& root_;
  const spec::FieldPlaces& places_;
  std::vector<Finding>& findings_;
  std::vector<spec::Problem>& others_;
  const std::vector<std::string> names_;
};

}  // namespace

void checkReferences(const TreeNode& root, const std::vector<Parameter>& parameters,
                     std::vector<Finding>& findings) {
  const std::vector<std::string> steps = stepNamesIn(root);
  std::vector<std::string> names;
  for (const Parameter& parameter : parameters) names.push_back(parameter.name);
  const auto known = [](const std::vector<std::string>& list, const std::string& name) {
    return std::find(list.begin(), list.end(), name) != list.end();
  };
  for (const TreeNode& section : root.children) {
    if (section.key == "parameters") continue;
    forEachScalar(section, section.key, [&](const TreeNode& scalar, const std::string& path) {
      if (hasOpenReference(scalar.text)) {
        findings.push_back({scalar.at, path, "a ${{ has no }} behind it; write $${{ for the text"});
      }
      for (const std::string& name : referencesIn(scalar.text)) {
        if (const auto step = stepOfReference(name)) {
          if (!known(steps, *step)) {
            findings.push_back(
                {scalar.at, path, fmt::format("no step '{}'{}", *step, suggestion(*step, steps))});
          }
        } else if (!isBuiltIn(name) && !valueOf(name, parameters)) {
          findings.push_back(
              {scalar.at, path, fmt::format("no parameter '{}'{}", name, suggestion(name, names))});
        }
      }
    });
  }
}

void checkPipeline(Pipeline& pipeline, const TreeNode& root, const spec::FieldPlaces& places,
                   std::vector<Finding>& findings, std::vector<spec::Problem>& others) {
  Checker(pipeline, root, places, findings, others).check();
}

}  // namespace dure::pipeline
