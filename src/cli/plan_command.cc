#include <memory>
#include <ostream>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "backend/kubernetes/cluster_inventory.h"
#include "backend/local/machine.h"
#include "cli/commands.h"
#include "cli/job_arguments.h"
#include "cli/plan_inventory.h"
#include "cli/plan_view.h"
#include "plan/place.h"

namespace dure::cli {
namespace {

struct PlanArguments {
  JobArguments job;
  std::string gpus;
  bool even = false;
  std::string free;
  std::string inventory;
  std::string on;
  kube::KubeAccessOptions access;
  bool json = false;
};

spec::Loaded loadJob(const Context& context, const PlanArguments& arguments) {
  JobArguments job = arguments.job;
  if (!arguments.gpus.empty()) job.others.push_back({"--gpus", "gpus", arguments.gpus});
  if (arguments.even) job.others.push_back({"--even", "even", "true"});
  if (!job.adHoc() || context.has_program) return job.load(context);
  // The plan says where it would run without knowing what.
  if (job.name.empty()) job.name = "plan";
  Context with_program{.out = context.out, .err = context.err, .program = {"true"}};
  with_program.has_program = true;
  return job.load(with_program);
}

Result<plan::Inventory> inventoryFor(const PlanArguments& arguments, const spec::Job& job) {
  if (!arguments.free.empty()) return inventoryOfFree(arguments.free, job.nodes);
  if (!arguments.inventory.empty()) return inventoryOfFile(arguments.inventory, job.nodes);
  if (arguments.on == "kubernetes") {
    auto access = kube::findAccess(arguments.access);
    if (!access) return std::move(access).error();
    // A person waits.
    kube::KubeClient client(*std::move(access), Duration{10'000});
    return kubernetes::readInventory(client, job.nodes);
  }
  return local::machineInventory(job.nodes);
}

void planCommand(Context& context, const PlanArguments& arguments) {
  const JobArguments& given = arguments.job;
  if (given.adHoc() && !context.has_program && arguments.gpus.empty() && given.workers.empty() &&
      given.sets.empty()) {
    return context.mistake(
        "nothing to plan: give a job file (dure plan JOB.yaml) or say what is wanted (dure plan "
        "--gpus 6 --free 5,3,2)");
  }
  const spec::Loaded loaded = loadJob(context, arguments);
  if (!reportProblems(context, loaded)) return;
  const auto inventory = inventoryFor(arguments, loaded.job);
  if (!inventory) return context.fail(inventory.error());
  const auto outcome = plan::place(plan::makeRequest(loaded.job), *inventory);
  if (const auto* shortage = std::get_if<plan::Shortage>(&outcome)) {
    context.code = kJobFailed;
    if (arguments.json) {
      context.out << toJson(*shortage).dump(2) << "\n";
    } else {
      context.err << "does not fit: " << shortage->message() << "\n";
    }
    return;
  }
  const auto& placement = std::get<plan::Placement>(outcome);
  if (arguments.json) {
    context.out << toJson(loaded.job, placement).dump(2) << "\n";
  } else {
    context.out << showPlacement(loaded.job, placement);
  }
}

}  // namespace

void addPlan(CLI::App& app, Context& context) {
  auto arguments = std::make_shared<PlanArguments>();
  CLI::App* command =
      app.add_subcommand("plan", "Say which node each task would run on; nothing starts");
  command->footer(
      "Exit code 1 says that it does not fit. Without --on, --free or --inventory the plan is for\n"
      "this machine alone.\n"
      "  dure plan job.yaml --on kubernetes\n"
      "  dure plan --free 5,3,2 --gpus 6\n"
      "  kubectl get nodes,pods -A -o json | dure plan job.yaml --inventory -");
  arguments->job.addTo(*command);
  command->add_option("--gpus", arguments->gpus, "GPUs of the whole job; the plan splits them")
      ->option_text("N");
  command->add_flag("--even", arguments->even, "With --gpus: the same number on every node");
  CLI::Option* free =
      command->add_option("--free", arguments->free, "Plan for nodes with so many free GPUs")
          ->option_text("N,N,…");
  CLI::Option* file =
      command
          ->add_option("--inventory", arguments->inventory,
                       "Plan for the nodes and pods in this file of kubectl; - is standard input")
          ->option_text("FILE.json")
          ->excludes(free);
  CLI::Option* on =
      command->add_option("--on", arguments->on, "Plan for the nodes of a cluster, as they are now")
          ->check(CLI::IsMember({"kubernetes"}))
          ->option_text("kubernetes")
          ->excludes(free)
          ->excludes(file);
  command
      ->add_option("--context", arguments->access.context,
                   "Of the kubeconfig, if not its current one")
      ->option_text("NAME")
      ->needs(on);
  command->add_flag("--json", arguments->json, "For programs");
  command->callback([&context, arguments] { planCommand(context, *arguments); });
}

}  // namespace dure::cli
