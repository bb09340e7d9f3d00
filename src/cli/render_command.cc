#include <algorithm>
#include <filesystem>
#include <memory>
#include <ostream>

#include <CLI/CLI.hpp>

#include <fmt/core.h>

#include "backend/kubernetes/objects.h"
#include "backend/kubernetes/render.h"
#include "backend/kubernetes/run_storage.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/job_arguments.h"

namespace dure::cli {
namespace {

struct RenderArguments {
  JobArguments job;
  std::string name_space;
  std::string format = "yaml";
  kubernetes::NfsOptions nfs{.image = "nfs-server:1"};
  std::string nfs_size = "10Gi";
};

// The first word that names a file of the folder that the job is run in on this machine.
std::string fileBesideJob(const spec::Job& job) {
  for (const std::string& word : job.program.command) {
    const std::filesystem::path path(word);
    std::error_code ignored;
    if (!word.empty() && path.is_relative() &&
        std::filesystem::is_regular_file(job.program.workdir / path, ignored)) {
      return word;
    }
  }
  return "";
}

// What works, but perhaps not as it was meant.
std::vector<std::string> notesOn(const spec::Job& job) {
  std::vector<std::string> notes;
  const std::string file = fileBesideJob(job);
  if (!file.empty()) {
    notes.push_back(fmt::format(
        "{} is not sent along; the image must have it where it starts its programs", file));
  }
  // Where a program writes is its own affair.
  if (!spec::runsTrainer(job)) return notes;
  if (!job.output.empty() && !kubernetes::isOnVolume(job, job.output)) {
    notes.push_back(fmt::format("output: {} is on no volume, so the model is gone when its pod is",
                                job.output));
  }
  if (!job.checkpoint.path.empty() && !kubernetes::isOnVolume(job, job.checkpoint.path)) {
    notes.push_back(
        fmt::format("checkpoint.path: {} is on no volume, so a pod that is started again begins "
                    "from the beginning",
                    job.checkpoint.path));
  }
  return notes;
}

Result<std::vector<nlohmann::json>> nfsObjects(const RenderArguments& arguments) {
  kubernetes::NfsOptions nfs = arguments.nfs;
  nfs.name_space = arguments.name_space;
  if (nfs.name_space.empty()) {
    return Error(Code::kInvalid,
                 "--nfs: give --namespace, too; the nodes find the server by a name that has it");
  }
  const auto size = parseBytes(arguments.nfs_size);
  if (!size || *size == 0) {
    return Error(Code::kInvalid, fmt::format("--nfs-size: must be a size (512Mi, 2Gi), got \"{}\"",
                                             arguments.nfs_size));
  }
  nfs.size = *size;
  return kubernetes::renderNfs(nfs);
}

void renderCommand(Context& context, const RenderArguments& arguments) {
  std::vector<nlohmann::json> objects;
  if (!arguments.nfs.name.empty()) {
    auto storage = nfsObjects(arguments);
    if (!storage) return context.fail(storage.error());
    objects = *std::move(storage);
  }
  const bool has_job = !arguments.job.adHoc() || context.has_program;
  if (!has_job && objects.empty()) {
    return context.mistake("nothing to render: give a job file (dure render JOB.yaml)");
  }
  if (has_job) {
    const spec::Loaded loaded = arguments.job.load(context);
    if (!reportProblems(context, loaded)) return;
    const auto rendered =
        kubernetes::renderJob(loaded.job, kubernetes::imagesFromEnvironment().trainer);
    if (!rendered) return context.fail(rendered.error());
    objects.insert(objects.end(), rendered->begin(), rendered->end());
    if (loaded.job.render.deploy) {
      for (const std::string& note : notesOn(loaded.job)) context.err << "note: " << note << "\n";
    }
  }
  if (!arguments.name_space.empty()) kubernetes::putInto(arguments.name_space, objects);
  context.out << (arguments.format == "json" ? kubernetes::printAsJson(objects)
                                             : kubernetes::printAsYaml(objects));
}

}  // namespace

void addRender(CLI::App& app, Context& context) {
  auto arguments = std::make_shared<RenderArguments>();
  CLI::App* command =
      app.add_subcommand("render", "Print a job as plain Kubernetes manifests; nothing starts");
  command->footer(
      "Each task becomes a Job and a Service, with the variables of its rank; nothing of Dure is\n"
      "needed in the cluster. Kubernetes then restarts task by task; restarts of the whole gang,\n"
      "mpi, horovod and a folder that is sent along need `dure run --on kubernetes`.\n"
      "  dure render job.yaml | kubectl create -n NAMESPACE -f -\n"
      "  dure render job.yaml --set deploy=false --set create_pvc_checkpoint=true    the claim\n"
      "  dure render job.yaml --set deploy=false --set create_volume_inspector=true  inspect it\n"
      "  dure render --nfs shared --nfs-size 10Gi --namespace NAMESPACE              shared "
      "storage");
  arguments->job.addTo(*command);
  command
      ->add_option("-n,--namespace", arguments->name_space,
                   "Written into every object; without it kubectl decides")
      ->option_text("NAME");
  command->add_option("-o,--output", arguments->format, "How it is printed; yaml if not said")
      ->check(CLI::IsMember({"yaml", "json"}))
      ->option_text("yaml|json");
  CLI::Option* nfs =
      command
          ->add_option("--nfs", arguments->nfs.name,
                       "An NFS server, and a claim of this name that all pods may write to")
          ->option_text("NAME");
  command->add_option("--nfs-size", arguments->nfs_size, "Its disk; 10Gi if not said")
      ->option_text("SIZE")
      ->needs(nfs);
  command->add_option("--nfs-image", arguments->nfs.image, "Serves /exports by NFS")
      ->option_text("IMAGE")
      ->needs(nfs);
  command
      ->add_option("--nfs-address", arguments->nfs.address,
                   "Of its service, where nodes cannot resolve the names of services")
      ->option_text("IP")
      ->needs(nfs);
  command
      ->add_option("--nfs-storage-class", arguments->nfs.storage_class,
                   "Of its disk, if not the cluster's default")
      ->option_text("NAME")
      ->needs(nfs);
  command->callback([&context, arguments] { renderCommand(context, *arguments); });
}

}  // namespace dure::cli
