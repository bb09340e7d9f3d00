#include <algorithm>
#include <memory>
#include <ostream>

#include <CLI/CLI.hpp>

#include <fmt/core.h>

#include "base/text.h"
#include "cli/commands.h"
#include "pipeline/load.h"
#include "spec/catalog.h"
#include "spec/strategies.h"

namespace dure::cli {
namespace {

// What shells offer for the arguments of a command.
enum class Offer { kFiles, kRuns, kBoth };

Offer offerFor(const CLI::App& command) {
  bool run = false;
  bool other = false;
  for (const CLI::Option* option : command.get_options()) {
    if (!option->get_positional()) continue;
    (option->get_name(true) == kRunArgument ? run : other) = true;
  }
  if (run && other) return Offer::kBoth;
  return run ? Offer::kRuns : Offer::kFiles;
}

const char* nameOf(Offer offer) {
  switch (offer) {
    case Offer::kFiles:
      return "files";
    case Offer::kRuns:
      return "runs";
    case Offer::kBoth:
      return "both";
  }
  return "";
}

std::vector<std::string> flagsOf(const CLI::App& command) {
  std::vector<std::string> flags;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
  }
  return flags;
}

// Those that help shows.
std::vector<const CLI::App*> commandsOf(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App* command) { return !command->get_group().empty(); });
}

std::string commandNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : commandsOf(app)) names.push_back(command->get_name());
  return join(names, " ");
}

std::string bashScript(const CLI::App& app) {
  std::string cases;
  for (const CLI::App* command : commandsOf(app)) {
    cases += fmt::format("    {}) flags='{}'; arguments={} ;;\n", command->get_name(),
                         join(flagsOf(*command), " "), nameOf(offerFor(*command)));
    // A command of commands: the word after it is one of them.
    for (const CLI::App* inner : commandsOf(*command)) {
      cases += fmt::format("    '{} {}') flags='{}'; arguments={} ;;\n", command->get_name(),
                           inner->get_name(), join(flagsOf(*inner), " "), nameOf(offerFor(*inner)));
    }
  }
  std::string groups;
  for (const CLI::App* command : commandsOf(app)) {
    if (commandsOf(*command).empty()) continue;
    groups += fmt::format("    {}) words='{}'; command=\"$command ${{COMP_WORDS[2]}}\" ;;\n",
                          command->get_name(), commandNames(*command));
  }
  return fmt::format(R"SH(# bash completion for dure; load it with:  source <(dure completion bash)
_dure() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} flags= arguments=files
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W '{} --help --version' -- "$word"))
    return
  fi
  local command=${{COMP_WORDS[1]}} words=
  case $command in
{}  esac
  if [ -n "$words" ] && [ "$COMP_CWORD" -eq 2 ]; then
    COMPREPLY=($(compgen -W "$words --help" -- "$word"))
    return
  fi
  case $command in
{}  esac
  case $before in
    --set) compopt -o nospace
           local names=fields file=
           if [ -n "$words" ]; then names=parameters; file=${{COMP_WORDS[3]}}; fi
           names=$(dure completion $names ${{file:+"$file"}})
           COMPREPLY=($(compgen -S = -W "$names" -- "$word")); return ;;
    --strategy|-s) COMPREPLY=($(compgen -W '{}' -- "$word"))
           return ;;
    --resume) arguments=runs ;;
  esac
  case $word in
    -*) COMPREPLY=($(compgen -W "$flags" -- "$word")) ;;
    *) if [ "$arguments" != files ]; then
         COMPREPLY=($(compgen -W "$(dure completion runs)" -- "$word"))
       fi
       if [ "$arguments" != runs ]; then
         COMPREPLY+=($(compgen -f -- "$word"))
       fi ;;
  esac
}}
complete -o filenames -F _dure dure
)SH",
                     commandNames(app), groups, cases, join(spec::strategyWords(), " "));
}

std::string zshScript(const CLI::App& app) {
  // zsh runs bash's completions; what is left is to load them.
  return "#compdef dure\n# zsh completion for dure; load it with:  source <(dure completion zsh)\n"
         "autoload -U +X compinit && compinit -u\nautoload -U +X bashcompinit && bashcompinit\n" +
         bashScript(app);
}

std::string fishScript(const CLI::App& app) {
  std::string script =
      "# fish completion for dure; load it with:  dure completion fish | source\n"
      "complete -c dure -n __fish_use_subcommand -f\n";
  for (const CLI::App* command : commandsOf(app)) {
    const std::string name = command->get_name();
    script += fmt::format("complete -c dure -n __fish_use_subcommand -f -a {} -d {}\n", name,
                          shellQuote(command->get_description()));
    for (const CLI::App* inner : commandsOf(*command)) {
      script += fmt::format("complete -c dure -n '__fish_seen_subcommand_from {}' -f -a {} -d {}\n",
                            name, inner->get_name(), shellQuote(inner->get_description()));
    }
    for (const CLI::Option* option : command->get_options()) {
      for (const std::string& flag : option->get_lnames()) {
        script += fmt::format("complete -c dure -n '__fish_seen_subcommand_from {}' -l {} -d {}\n",
                              name, flag, shellQuote(option->get_description()));
      }
    }
    if (const Offer offer = offerFor(*command); offer != Offer::kFiles) {
      script += fmt::format(
          "complete -c dure -n '__fish_seen_subcommand_from {}' {}-a '(dure completion runs)'\n",
          name, offer == Offer::kRuns ? "-f " : "");
    }
  }
  return script;
}

void completionCommand(Context& context, const CLI::App& app, const std::string& what,
                       const std::string& file) {
  if (what == "bash") {
    context.out << bashScript(app);
  } else if (what == "zsh") {
    context.out << zshScript(app);
  } else if (what == "fish") {
    context.out << fishScript(app);
  } else if (what == "fields") {
    for (const std::string& path : spec::jobFieldPaths()) context.out << path << "\n";
  } else if (what == "parameters") {
    for (const pipeline::Parameter& parameter :
         pipeline::loadPipelineFile(file, {}).pipeline.parameters) {
      context.out << parameter.name << "\n";
    }
  } else if (what == "runs") {
    const auto store = openStore(context);
    if (!store) return;
    for (const runs::RunId& id : store->list()) context.out << id.text() << "\n";
  } else {
    context.mistake("completion: must be bash, zsh or fish, got \"" + what + "\"");
  }
}

}  // namespace

void addCompletion(CLI::App& app, Context& context) {
  auto what = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("completion", "Print completions for a shell");
  command->footer(
      "  source <(dure completion bash)     in ~/.bashrc\n"
      "  dure completion fish | source      in fish's config.fish");
  command->add_option("shell", *what, "bash, zsh or fish")->option_text("SHELL")->required();
  // For the scripts themselves: the pipeline file whose parameters they offer.
  auto file = std::make_shared<std::string>();
  command->add_option("file", *file)->group("");
  command->callback(
      [&context, &app, what, file] { completionCommand(context, app, *what, *file); });
}

}  // namespace dure::cli
