#include <filesystem>
#include <memory>
#include <ostream>

#include <CLI/CLI.hpp>

#include <fmt/core.h>

#include "base/text.h"
#include "bundle/file_stream.h"
#include "cli/cluster_pipeline.h"
#include "cli/commands.h"
#include "cli/where_arguments.h"

namespace dure::cli {
namespace {

namespace fs = std::filesystem;

struct FetchArguments {
  std::string run;
  std::string path;
  std::string to;
  WhereArguments where;
};

std::string targetOf(const FetchArguments& arguments) {
  if (!arguments.to.empty()) return arguments.to;
  fs::path path = fs::path(arguments.path).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  return path.filename();
}

void fetchCommand(Context& context, const FetchArguments& arguments) {
  const auto runs = arguments.where.openRuns(context);
  if (!runs) return;
  const auto id = runs->find(arguments.run);
  if (!id) return context.fail(id.error());
  if (arguments.path.empty()) {
    const auto path = runs->bringHome(*id, ".", Wait());
    if (!path) return context.fail(path.error());
    context.out << *path << "\n";
    return;
  }
  bundle::FileReceiver files(targetOf(arguments));
  auto store = arguments.where.onKubernetes() ? std::nullopt : openStore(context);
  const auto pipeline = store ? ClusterPipeline::open(*store, *id)
                              : Result<std::unique_ptr<ClusterPipeline>>(nullptr);
  if (!pipeline) return context.fail(pipeline.error());
  const auto fetched = *pipeline ? (*pipeline)->volume().fetch(arguments.path, files)
                                 : runs->fetch(*id, arguments.path, files, Wait());
  if (!fetched) return context.fail(fetched.error());
  context.out << fmt::format("{}: {} file{}, {}\n", files.target(), files.files(),
                             files.files() == 1 ? "" : "s", formatBytes(files.bytes()));
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
      "  dure fetch train --on kubernetes\n"
      "  dure fetch train out/checkpoints --on kubernetes");
  command->add_option(kRunArgument, arguments->run, "NAME for its newest run, or NAME.NUMBER")
      ->option_text("RUN")
      ->required();
  command
      ->add_option("path", arguments->path,
                   "A file or a directory; the job's output, to its place, if left out")
      ->option_text("[PATH]");
  command->add_option("to", arguments->to, "Where to; its own name if left out")
      ->option_text("[TO]");
  arguments->where.addTo(*command);
  command->callback([&context, arguments] { fetchCommand(context, *arguments); });
}

}  // namespace dure::cli
