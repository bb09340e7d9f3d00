#include "cli/cli.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/local_run.h"
#include "runs/run_store.h"
#include "spec/load.h"

namespace dure::cli {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::StartsWith;

// All that there are, of those that people are to know, or of the others.
std::vector<std::string> commands(bool hidden) {
  std::ostringstream out;
  std::ostringstream err;
  Context context{.out = out, .err = err};
  CLI::App app;
  addCommands(app, context);
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (command->get_group().empty() == hidden) names.push_back(command->get_name());
  }
  return names;
}

const std::vector<std::string> kCommands = commands(false);

struct Called {
  int code = 0;
  std::string out;
  std::string err;
};

Called call(const std::vector<std::string>& arguments) {
  std::ostringstream out;
  std::ostringstream err;
  const int code = run(arguments, out, err);
  return {code, out.str(), err.str()};
}

// Commands with a state directory of their own, and an agent beside this program as there is one
// beside the real one.
class Cli : public testing::Test {
 protected:
  Cli() {
    setenv("DURE_STATE_DIR", (root_ + "/state").c_str(), 1);
    linked_ = symlink("/bin/true", agentProgram().c_str()) == 0;
  }
  ~Cli() override {
    if (linked_) unlink(agentProgram().c_str());
    unsetenv("DURE_STATE_DIR");
    static_cast<void>(removeTree(root_));
  }
  std::string file(const std::string& name, const std::string& content) const {
    std::ofstream(root_ + "/" + name) << content;
    return root_ + "/" + name;
  }
  std::string goodJob() const {
    return file("job.yaml",
                "name: train\nstrategy: torch\nworkers: 2\nprogram: {command: [sh, -c, exit]}\n");
  }
  // A run that ended without a word; its process is gone.
  void createRun(const std::string& name) {
    runs::RunStore store(root_ + "/state");
    const spec::Loaded loaded =
        spec::loadJobText("", "name: " + name + "\nprogram: {command: [true]}\n", {});
    ASSERT_TRUE(store.create(loaded.job));
  }

 private:
  static std::string make() {
    std::string name = testing::TempDir() + "dure-cli-XXXXXX";
    return mkdtemp(name.data());
  }
  bool linked_ = false;

 protected:
  const std::string root_ = make();
};

TEST_F(Cli, EveryCommandExplainsItself) {
  const Called all = call({"--help"});
  EXPECT_EQ(all.code, 0);
  EXPECT_EQ(all.err, "");
  EXPECT_THAT(all.out, HasSubstr("Exit codes"));
  EXPECT_THAT(kCommands, testing::IsSupersetOf({"run", "pipeline", "completion"}));
  for (const std::string& command : kCommands) {
    EXPECT_THAT(all.out, ContainsRegex("\n  " + command + " "));
    const Called one = call({command, "--help"});
    EXPECT_EQ(one.code, 0) << command;
    EXPECT_EQ(one.err, "") << command;
    EXPECT_THAT(one.out, HasSubstr("dure " + command));
  }
  EXPECT_EQ(call({}).out, all.out) << "no arguments at all ask for help";
}

TEST_F(Cli, TheVersionIsTold) {
  const Called called = call({"--version"});
  EXPECT_EQ(called.code, 0);
  EXPECT_EQ(called.out, "dure " DURE_VERSION "\n");
}

TEST_F(Cli, AMistakeInTheCallIsTwo) {
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"frobnicate"},
                                             {"--frobnicate"},
                                             {"ps", "--frobnicate"},
                                             {"ps", "extra"},
                                             {"describe"},
                                             {"stop"},
                                             {"env", "--rank", "one"},
                                             {"logs"},
                                             {"run"},
                                             {"completion", "tcsh"}}) {
    const Called called = call(arguments);
    EXPECT_EQ(called.code, 2) << join(arguments, " ");
    EXPECT_EQ(called.out, "") << join(arguments, " ");
    EXPECT_THAT(called.err, StartsWith("dure: ")) << join(arguments, " ");
  }
  EXPECT_THAT(call({"ps", "--frobnicate"}).err, HasSubstr("Try: dure ps --help"));
}

TEST_F(Cli, CheckSaysWhatTheJobIs) {
  const Called called = call({"check", goodJob()});
  EXPECT_EQ(called.code, 0) << called.err;
  EXPECT_EQ(called.out, "train: torch, 2 tasks, 2 ranks\n");
  EXPECT_EQ(call({"check", "--workers", "1", "--name", "x", "--", "true", "--help"}).out,
            "x: plain, 1 task, 1 rank\n")
      << "what stands behind -- is the program's";
}

TEST_F(Cli, CheckNamesEveryProblemWithItsPlace) {
  const std::string path =
      file("bad.yaml", "name: train\nworkers: -2\nprogram:\n  command: [true]\n  wrokdir: x\n");
  const Called called = call({"check", path});
  EXPECT_EQ(called.code, 2);
  EXPECT_EQ(called.out, "");
  EXPECT_THAT(called.err, AllOf(HasSubstr(path + ":2:10: workers: "), HasSubstr(path + ":5:3: "),
                                HasSubstr("workdir")));
  const Called missing = call({"check", root_ + "/missing.yaml"});
  EXPECT_EQ(missing.code, 2);
  EXPECT_THAT(missing.err, HasSubstr("missing.yaml"));
  const Called flag = call({"check", goodJob(), "--workers", "many", "--env", "NOVALUE"});
  EXPECT_EQ(flag.code, 2);
  EXPECT_THAT(flag.err, HasSubstr("--env: must be NAME=VALUE, got \"NOVALUE\""));
}

TEST_F(Cli, CheckAnswersProgramsInJson) {
  const std::string path = file("bad.yaml", "name: train\nworkers: -2\nprogram: {command: [a]}\n");
  const Called bad = call({"check", path, "--json"});
  EXPECT_EQ(bad.code, 2);
  const json report = json::parse(bad.out);
  EXPECT_EQ(report.at("ok"), false);
  EXPECT_EQ(report.at("problems").at(0).at("file"), path);
  EXPECT_EQ(report.at("problems").at(0).at("line"), 2);
  EXPECT_EQ(report.at("problems").at(0).at("field"), "workers");
  const Called good = call({"check", goodJob(), "--json"});
  EXPECT_EQ(good.code, 0);
  EXPECT_EQ(json::parse(good.out).at("ok"), true);
}

TEST_F(Cli, EnvPrintsWhatARankWouldSee) {
  const Called called = call({"env", goodJob(), "--rank", "1"});
  ASSERT_EQ(called.code, 0) << called.err;
  EXPECT_THAT(called.out, AllOf(HasSubstr("\nRANK=1\n"), HasSubstr("\nWORLD_SIZE=2\n"),
                                HasSubstr("\nMASTER_ADDR=127.0.0.1\n")));
  for (const std::string& line : split(called.out.substr(0, called.out.size() - 1), '\n')) {
    EXPECT_THAT(line, ContainsRegex("^[A-Z_][A-Z0-9_]*="));
  }
  // A name of its own, so that nobody else is after the same ports.
  const std::string name = "train-" + std::to_string(getpid());
  const Called all = call({"env", goodJob(), "--name", name});
  EXPECT_THAT(all.out,
              AllOf(StartsWith("# rank 0 (worker-0)\n"), HasSubstr("# rank 1 (worker-1)\n")));
  EXPECT_EQ(call({"env", goodJob(), "--name", name}).out, all.out) << "nothing has changed";
  EXPECT_TRUE(listDirectory(root_ + "/state").empty()) << "nothing was started";
}

TEST_F(Cli, EnvAnswersProgramsInJson) {
  const Called called = call({"env", goodJob(), "--json", "--env", "COLOUR=red green"});
  ASSERT_EQ(called.code, 0) << called.err;
  const json ranks = json::parse(called.out);
  ASSERT_EQ(ranks.size(), 2u);
  EXPECT_EQ(ranks[1].at("rank"), 1);
  EXPECT_EQ(ranks[1].at("task"), "worker-1");
  EXPECT_EQ(ranks[1].at("env").at("RANK"), "1");
  EXPECT_EQ(ranks[1].at("env").at("COLOUR"), "red green");
}

TEST_F(Cli, EnvOfARankThatThereIsNotIsAMistake) {
  for (const char* rank : {"2", "-1", "1000000"}) {
    const Called called = call({"env", goodJob(), "--rank=" + std::string(rank)});
    EXPECT_EQ(called.code, 2) << rank;
    EXPECT_EQ(called.out, "");
    EXPECT_EQ(called.err, "dure: --rank: there are ranks 0 to 1\n");
  }
}

TEST_F(Cli, EnvOfAProgramThatIsMissingIsAMistake) {
  const Called called = call({"env", "--", "no-such-program"});
  EXPECT_EQ(called.code, 2);
  EXPECT_THAT(called.err, HasSubstr("no-such-program: command not found"));
}

TEST_F(Cli, TheSchemaIsJsonAndItsPageIsMarkdown) {
  const Called schema = call({"schema"});
  EXPECT_EQ(schema.code, 0);
  EXPECT_TRUE(json::parse(schema.out).at("properties").contains("workers"));
  EXPECT_THAT(call({"schema", "--markdown"}).out, HasSubstr("| `gpus` |"));
}

TEST_F(Cli, CompletionsKnowEveryCommand) {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const Called called = call({"completion", shell});
    EXPECT_EQ(called.code, 0);
    for (const std::string& command : kCommands) EXPECT_THAT(called.out, HasSubstr(command));
    EXPECT_THAT(called.out, HasSubstr("detach"));
  }
  EXPECT_THAT(call({"completion", "fields"}).out, HasSubstr("program.command\n"));
  createRun("train");
  EXPECT_EQ(call({"completion", "runs"}).out, "train.1\n");
}

TEST_F(Cli, CompletionsOfferNoHiddenCommand) {
  const std::vector<std::string> hidden = commands(true);
  EXPECT_THAT(hidden, testing::Contains("coordinate"));
  for (const std::string& command : hidden) {
    EXPECT_EQ(call({command, "--help"}).code, 0) << command;
    for (const char* shell : {"bash", "zsh", "fish"}) {
      EXPECT_THAT(call({"completion", shell}).out, testing::Not(HasSubstr(command))) << shell;
    }
  }
}

TEST_F(Cli, CommandsThatTakeARunCompleteIt) {
  const std::string bash = call({"completion", "bash"}).out;
  const std::string fish = call({"completion", "fish"}).out;
  const auto lineOf = [](const std::string& text, const std::string& begin) {
    const std::size_t at = text.find(begin);
    return at == std::string::npos ? "" : text.substr(at, text.find('\n', at) - at);
  };
  for (const std::string command : {"describe", "logs", "stop", "rm"}) {
    EXPECT_THAT(lineOf(bash, "    " + command + ") "), HasSubstr("arguments=runs")) << command;
  }
  // The path of what is fetched, and where it goes, are files.
  EXPECT_THAT(lineOf(bash, "    fetch) "), HasSubstr("arguments=both"));
  EXPECT_THAT(lineOf(bash, "    run) "), HasSubstr("arguments=files"));
  EXPECT_THAT(fish, HasSubstr("__fish_seen_subcommand_from fetch' -a '(dure completion runs)'"));
}

TEST_F(Cli, TheCompletionForBashIsAScriptThatBashReads) {
  const std::string script = file("completion", call({"completion", "bash"}).out);
  EXPECT_EQ(std::system(("bash -n " + shellQuote(script)).c_str()), 0);
}

TEST_F(Cli, WithoutRunsPsSaysSo) {
  EXPECT_EQ(json::parse(call({"ps", "--json"}).out), json::array());
  EXPECT_THAT(call({"ps"}).out, HasSubstr("no runs yet"));
  EXPECT_EQ(call({"ps"}).code, 0);
}

TEST_F(Cli, PsAndDescribeTellOfALostRunAndHowToGoOn) {
  createRun("train");
  EXPECT_THAT(call({"ps"}).out, AllOf(HasSubstr("train.1"), HasSubstr("lost"),
                                      HasSubstr("dure run --resume train.1")));
  const json list = json::parse(call({"ps", "--json"}).out);
  ASSERT_EQ(list.size(), 1u);
  EXPECT_EQ(list[0].at("status"), "lost");
  EXPECT_THAT(call({"describe", "train"}).out, HasSubstr("dure run --resume train.1"));
  EXPECT_EQ(json::parse(call({"describe", "train", "--json"}).out).at("id"), "train.1");
}

TEST_F(Cli, AnUnknownRunIsAMistakeWithASuggestion) {
  createRun("train");
  for (const char* command : {"describe", "logs", "stop", "rm"}) {
    const Called called = call({command, "trian"});
    EXPECT_EQ(called.code, 2) << command;
    EXPECT_EQ(called.err, "dure: no run named \"trian\"; did you mean \"train\"?\n") << command;
  }
  EXPECT_EQ(call({"run", "--resume", "trian"}).code, 2);
}

TEST_F(Cli, LogsShowTheNewestGenerationWithTheRankInFront) {
  createRun("train");
  const runs::RunPaths paths{root_ + "/state/runs/train.1"};
  for (const int generation : {1, 2}) {
    ASSERT_TRUE(makeDirectories(paths.logs(generation)));
    for (const int rank : {0, 1}) {
      std::ofstream(paths.log(generation, rank)) << "g" << generation << "\nend";
    }
  }
  EXPECT_EQ(call({"logs", "train"}).out, "[0] g2\n[0] end\n[1] g2\n[1] end\n");
  EXPECT_EQ(call({"logs", "train", "--rank", "1"}).out, "g2\nend\n");
  EXPECT_EQ(call({"logs", "train", "--rank", "1", "--generation", "1"}).out, "g1\nend\n");
  EXPECT_EQ(call({"logs", "-f", "train", "--rank", "0"}).out, "g1\ng2\nend\nend\n");
  const std::string first = split(call({"logs", "train", "--json"}).out, '\n').at(0);
  EXPECT_EQ(json::parse(first), (json{{"generation", 2}, {"rank", 0}, {"line", "g2"}}));
}

TEST_F(Cli, RmTakesRunsAwayAndStopLeavesEndedOnesAlone) {
  createRun("train");
  createRun("train");
  EXPECT_EQ(call({"stop", "train"}).out, "train.2 is not running: lost\n");
  const Called mixed = call({"rm", "train.1", "none"});
  EXPECT_EQ(mixed.out, "removed train.1\n") << "one mistake does not keep the others";
  EXPECT_EQ(mixed.code, 2);
  EXPECT_EQ(json::parse(call({"rm", "train", "--json"}).out), (json{{"removed", {"train.2"}}}));
  EXPECT_EQ(json::parse(call({"ps", "--json"}).out), json::array());
}

}  // namespace
}  // namespace dure::cli
