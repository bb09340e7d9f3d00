#include <chrono>
#include <filesystem>
#include <memory>
#include <ostream>
#include <thread>

#include <CLI/CLI.hpp>

#include <fmt/core.h>

#include "backend/kubernetes/manifest_parts.h"
#include "backend/kubernetes/objects.h"
#include "backend/kubernetes/pod_view.h"
#include "backend/kubernetes/record.h"
#include "base/process.h"
#include "base/text.h"
#include "bundle/file_stream.h"
#include "cli/command.h"
#include "cli/place_arguments.h"
#include "kube/exec.h"
#include "runs/run_reader.h"
#include "spec/load.h"

namespace dure::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr auto kPodPoll = std::chrono::milliseconds(200);
constexpr auto kPodPatience = std::chrono::seconds(60);

struct FetchArguments {
  std::string run;
  std::string path;
  std::string to;
  PlaceArguments place;
};

std::string targetOf(const FetchArguments& arguments) {
  if (!arguments.to.empty()) return arguments.to;
  fs::path path = fs::path(arguments.path).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  return path.filename();
}

void tell(Context& context, const bundle::FileReceiver& files, const std::string& target) {
  context.out << fmt::format("{}: {} file{}, {}\n", target, files.files(),
                             files.files() == 1 ? "" : "s", formatBytes(files.bytes()));
}

void fetchLocally(Context& context, const FetchArguments& arguments) {
  const auto store = openStore(context);
  if (!store) return;
  const auto id = store->find(arguments.run);
  if (!id) return context.fail(id.error());
  const runs::RunView run = runs::readRun(*store, *id);
  if (!run.job) return context.mistake("the record of " + id->text() + " is damaged");
  const fs::path from = (fs::path(run.job->program.workdir) / arguments.path).lexically_normal();
  bundle::FileReceiver files(targetOf(arguments));
  std::error_code same;
  if (fs::equivalent(from, targetOf(arguments), same)) {
    return context.mistake(from.string() + " is here already");
  }
  auto sent = bundle::sendFiles(from, [&](std::string_view bytes) { return files.take(bytes); });
  if (sent) sent = files.finish();
  if (!sent) return context.fail(sent.error());
  tell(context, files, targetOf(arguments));
}

// A pod that has the volume: one of the job's that still runs, or one made for looking into it.
class VolumePod {
 public:
  VolumePod(kube::KubeClient& client, kubernetes::KubeRun run, spec::Job job)
      : client_(client), run_(std::move(run)), job_(std::move(job)) {}

  ~VolumePod() {
    if (!made_.empty()) {
      static_cast<void>(
          client_.remove({kube::kinds::kPods, run_.name_space, made_, ""}, {.grace_seconds = 0}));
    }
  }

  Status find() {
    const auto pods = client_.listAll({kube::kinds::kPods, run_.name_space, "", ""},
                                      {.labels = kubernetes::selectorOf(run_, "task")});
    if (!pods) return pods.error();
    for (const json& pod : *pods) {
      const kubernetes::PodView view = kubernetes::viewPod(pod);
      // The first rank's pod has every volume.
      if (view.phase != "Running" || view.deleting || !view.first) continue;
      pod_ = view.name;
      container_ = view.task;
      agent_ = kubernetes::kPodAgent;
      return {};
    }
    return make();
  }

  Status send(const std::string& path, bundle::FileReceiver& files) {
    Status taken;
    std::string complaint;
    const auto code = kube::exec(client_,
                                 {.name_space = run_.name_space,
                                  .pod = pod_,
                                  .container = container_,
                                  .command = {agent_, "send", path},
                                  .input = {}},
                                 [&](kube::ExecStream stream, std::string_view bytes) {
                                   if (stream == kube::ExecStream::kErr) {
                                     complaint += bytes;
                                   } else if (taken) {
                                     taken = files.take(bytes);
                                   }
                                 });
    if (!code) return code.error();
    if (!taken) return taken;
    if (*code != 0) {
      if (complaint.empty()) {
        return Error(Code::kUnavailable,
                     fmt::format("{} ended while it sent {}; try again", pod_, path));
      }
      while (!complaint.empty() && complaint.back() == '\n') complaint.pop_back();
      const std::size_t colon = complaint.find(": ");  // after the agent's name
      return Error(Code::kNotFound,
                   colon == std::string::npos ? complaint : complaint.substr(colon + 2));
    }
    return files.finish();
  }

 private:
  Status make() {
    pod_ = fmt::format("{}-fetch-{}", run_.object(), randomToken().substr(0, 6));
    container_ = "fetch";
    agent_ = kubernetes::kPodAgent;
    const kubernetes::KubeImages images = kubernetes::imagesFromEnvironment();
    json security = kubernetes::containerSecurity(job_);
    security["readOnlyRootFilesystem"] = true;
    json container = {{"name", container_},
                      {"image", images.dure},
                      {"command", {kubernetes::kPodAgent, "wait"}},
                      {"securityContext", security},
                      {"resources", kubernetes::resourcesOf(job_.kubernetes.manager)},
                      {"volumeMounts", kubernetes::mountsOf(job_, kubernetes::kPodWorkdir, true)}};
    if (!job_.program.pull.empty()) container["imagePullPolicy"] = job_.program.pull;
    container["volumeMounts"].push_back(kubernetes::agentMount());
    json install = kubernetes::agentInstaller(job_, images);
    install["resources"] = container["resources"];
    json spec = kubernetes::schedulingOf(job_);
    spec["restartPolicy"] = "Never";
    spec["automountServiceAccountToken"] = false;
    spec["activeDeadlineSeconds"] = 3600;  // and until then holds its volumes no longer than this
    spec["securityContext"] = kubernetes::podSecurity(job_);
    kubernetes::addPullSecrets(job_, spec);
    spec["initContainers"] = json::array({install});
    spec["containers"] = json::array({container});
    spec["volumes"] = kubernetes::volumesOf(job_, true);
    spec["volumes"].push_back(kubernetes::agentVolume());
    // Should we not come to delete it, it goes with the run.
    const auto record = client_.get({kube::kinds::kConfigMaps, run_.name_space, run_.object(), ""});
    if (!record) return record.error();
    const auto made =
        client_.create({kube::kinds::kPods, run_.name_space, "", ""},
                       {{"apiVersion", "v1"},
                        {"kind", "Pod"},
                        {"metadata",
                         {{"name", pod_},
                          {"namespace", run_.name_space},
                          {"labels", kubernetes::labelsOf(run_, "fetch")},
                          {"ownerReferences", json::array({kubernetes::ownerReference(*record)})}}},
                        {"spec", spec}});
    if (!made) return made.error();
    made_ = pod_;
    const auto deadline = std::chrono::steady_clock::now() + kPodPatience;
    std::string problem;
    while (std::chrono::steady_clock::now() < deadline) {
      const auto pod = client_.get({kube::kinds::kPods, run_.name_space, made_, ""});
      if (!pod) return pod.error();
      const kubernetes::PodView view = kubernetes::viewPod(*pod);
      if (view.phase == "Running") return {};
      problem = view.problem;
      if (view.ended() || view.hopeless) break;
      std::this_thread::sleep_for(kPodPoll);
    }
    return Error(Code::kUnavailable,
                 fmt::format("the pod that looks into the volume does not start{}{}",
                             problem.empty() ? "" : ": ", problem));
  }

  kube::KubeClient& client_;
  const kubernetes::KubeRun run_;
  const spec::Job job_;
  std::string made_;
  std::string pod_;
  std::string container_;
  std::string agent_;
};

void fetchFromCluster(Context& context, const FetchArguments& arguments) {
  const auto client = arguments.place.connect(context);
  if (!client) return;
  const auto run = kubernetes::findRun(*client, client->access().name_space, arguments.run);
  if (!run) return context.fail(run.error());
  const auto record = kubernetes::readRecord(*client, *run);
  if (!record) return context.fail(record.error());
  const spec::Loaded loaded = spec::loadJobText("", record->job, {});
  if (!loaded.ok()) return context.mistake("the record of " + run->text() + " is damaged");
  VolumePod pod(*client, *run, loaded.job);
  if (auto found = pod.find(); !found) return context.fail(found.error());
  bundle::FileReceiver files(targetOf(arguments));
  const fs::path path = (fs::path(kubernetes::kPodWorkdir) / arguments.path).lexically_normal();
  if (auto sent = pod.send(path, files); !sent) return context.fail(sent.error());
  tell(context, files, targetOf(arguments));
}

}  // namespace

void addFetch(CLI::App& app, Context& context) {
  auto arguments = std::make_shared<FetchArguments>();
  CLI::App* command = app.add_subcommand("fetch", "Bring files home that a run wrote");
  command->footer(
      "PATH is as the job's program sees it: relative to its workdir, or whole. On Kubernetes it\n"
      "must be on a volume of the job; if none of its pods holds that any more, one is made to "
      "look\n"
      "into it.\n"
      "  dure fetch train out/model.h5 --on kubernetes");
  command->add_option("run", arguments->run, "NAME for its newest run, or NAME.NUMBER")
      ->option_text("RUN")
      ->required();
  command->add_option("path", arguments->path, "A file or a directory")
      ->option_text("PATH")
      ->required();
  command->add_option("to", arguments->to, "Where to; its own name if left out")
      ->option_text("[TO]");
  arguments->place.addTo(*command);
  command->callback([&context, arguments] {
    arguments->place.onKubernetes() ? fetchFromCluster(context, *arguments)
                                    : fetchLocally(context, *arguments);
  });
}

}  // namespace dure::cli
