#include <signal.h>

#include <memory>
#include <ostream>
#include <thread>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <fmt/core.h>

#include "backend/kubernetes/record.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/kubernetes_follow.h"
#include "cli/kubernetes_runs.h"
#include "cli/place_arguments.h"
#include "runs/log_follower.h"
#include "runs/run_reader.h"

namespace dure::cli {
namespace {

constexpr auto kLogPoll = std::chrono::milliseconds(100);
constexpr auto kAskAgain = std::chrono::seconds(1);
// For the last words of pods that have ended.
constexpr Duration kLogDrain{10'000};

struct LogsArguments {
  std::string name;
  bool follow = false;
  bool json = false;
  std::optional<int> rank;
  std::optional<int> generation;
  PlaceArguments place;
};

void print(std::ostream& out, const LogsArguments& arguments, int generation, int rank,
           std::string_view lines) {
  // One rank's log is printed as it is: it may be fed to another program.
  if (arguments.rank && !arguments.json) {
    out << lines;
    return;
  }
  while (!lines.empty()) {
    const std::size_t end = lines.find('\n');
    const std::string_view line = lines.substr(0, end);
    if (arguments.json) {
      out << nlohmann::json{{"generation", generation}, {"rank", rank}, {"line", toValidUtf8(line)}}
                 .dump()
          << "\n";
    } else {
      out << "[" << rank << "] " << line << "\n";
    }
    lines.remove_prefix(std::min(end + 1, lines.size()));
  }
}

void logsOfPods(Context& context, const LogsArguments& arguments) {
  const auto client = arguments.place.connect(context);
  if (!client) return;
  const auto run = kubernetes::findRun(*client, client->access().name_space, arguments.name);
  if (!run) return context.fail(run.error());
  const auto view = readKubeRun(*client, *run);
  if (!view) return context.fail(view.error());
  auto generation = arguments.generation;
  if (!generation && !arguments.follow) generation = view->state.generation;
  signal(SIGPIPE, SIG_DFL);
  PodLogs logs(*client, *run, generation, [&](int g, int rank, std::string_view lines) {
    if (arguments.rank && *arguments.rank != rank) return;
    print(context.out, arguments, g, rank, lines);
    context.out.flush();
  });
  if (!arguments.follow) {
    const auto pods = client->listAll({kube::kinds::kPods, run->name_space, "", ""},
                                      {.labels = kubernetes::selectorOf(*run, "task")});
    if (!pods) return context.fail(pods.error());
    if (auto looked = logs.see(*pods, false); !looked) context.fail(looked.error());
    return;
  }
  RunWatch watch(*client, *run);
  KubeRunObjects objects;
  bool stale = false;
  while (true) {
    if (auto news = watch.next(kLogPoll)) {
      objects = *std::move(news);
      stale = true;
    }
    const auto trouble = watch.trouble();
    if (trouble && trouble->code() == Code::kDenied) return context.fail(*trouble);
    if (!stale) continue;
    if (auto looked = logs.see(objects.pods, true); !looked) return context.fail(looked.error());
    const auto now = followed(*client, *run, objects);
    if (now ? now->over : now.error().code() == Code::kNotFound) break;
    // Whatever else keeps us from it, the run goes on.
    stale = !now;
    if (stale) std::this_thread::sleep_for(kAskAgain);
  }
  readLastWords(*client, *run, watch, logs, kLogDrain);
}

void logsCommand(Context& context, const LogsArguments& arguments) {
  if (arguments.place.onKubernetes()) return logsOfPods(context, arguments);
  const auto store = openStore(context);
  if (!store) return;
  const auto id = store->find(arguments.name);
  if (!id) return context.fail(id.error());
  const runs::RunPaths paths = store->paths(*id);
  auto generation = arguments.generation;
  if (!generation && !arguments.follow) generation = runs::LogFollower::newestGeneration(paths);
  runs::LogFollower follower(paths, {.rank = arguments.rank, .generation = generation});
  const auto show = [&](int g, int rank, std::string_view lines) {
    print(context.out, arguments, g, rank, lines);
  };
  signal(SIGPIPE, SIG_DFL);
  while (arguments.follow) {
    const bool over = !store->coordinator(*id);
    follower.poll(false, show);
    context.out.flush();
    if (over) break;
    std::this_thread::sleep_for(kLogPoll);
  }
  follower.poll(true, show);
}

}  // namespace

void addLogs(CLI::App& app, Context& context) {
  auto arguments = std::make_shared<LogsArguments>();
  CLI::App* command = app.add_subcommand("logs", "Print what the ranks of a run printed");
  command->footer("Without --generation or -f: of the newest generation.");
  command->add_option("run", arguments->name, "NAME for its newest run, or NAME.NUMBER")
      ->option_text("RUN")
      ->required();
  command->add_flag("-f,--follow", arguments->follow, "Go on until the run ends");
  command->add_option("--rank", arguments->rank, "Of this rank only, and without the rank in front")
      ->option_text("N");
  command->add_option("--generation", arguments->generation, "Of this generation")
      ->option_text("N");
  command->add_flag("--json", arguments->json, "One JSON object a line");
  arguments->place.addTo(*command);
  command->callback([&context, arguments] { logsCommand(context, *arguments); });
}

}  // namespace dure::cli
