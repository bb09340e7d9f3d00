#include "spec/load.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/files.h"
#include "spec/test_jobs.h"

namespace dure::spec {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::IsEmpty;

const std::string kProgram = "program: {command: [a]}\n";
const std::string kNative = "train: {model: mlp, data: /d}\n";

TEST(LoadTest, ReadsTheJobOfTheDesign) {
  const Job job = jobOf(R"(
name: fashion-mnist
workers: 2
resources: {cpus: 1, memory: 2Gi, gpus: 0}
strategy: native
train:
  model: convnet
  data: {path: /usr/share/datasets/fashion-mnist}
  epochs: 3
  batch: 100
  optimizer: {name: adam, lr: 0.001}
  sync: step
checkpoint: {path: out/checkpoints, every: 200, keep: 3}
output: out/model.h5
restarts: {limit: 3}
)");
  EXPECT_EQ(job.name, "fashion-mnist");
  EXPECT_EQ(job.workers, (WorkerCount{2, 2}));
  EXPECT_EQ(job.resources.memory, std::int64_t{2} << 30);
  EXPECT_EQ(job.strategy, Strategy::kNative);
  EXPECT_EQ(job.train.model.name, "convnet");
  EXPECT_EQ(job.train.data.path, "/usr/share/datasets/fashion-mnist");
  EXPECT_EQ(job.train.epochs, 3);
  EXPECT_EQ(job.checkpoint.every, 200);
  EXPECT_EQ(job.output, "out/model.h5");
}

TEST(LoadTest, EveryShorthandMeansItsLongForm) {
  const std::vector<std::pair<std::string, std::string>> pairs{
      {kProgram + "workers: 2", kProgram + "workers: {min: 2, max: 2}"},
      {kProgram + "workers: 2", kProgram + "roles: {worker: 2}"},
      {kProgram + "workers: {min: 1, max: 3}", kProgram + "roles: {worker: {min: 1, max: 3}}"},
      {kProgram + "workers: 2", kProgram + "workers: 2\nroles: {worker: {min: 2, max: 2}}"},
      {kProgram + "restarts: 5", kProgram + "restarts: {limit: 5}"},
      {kProgram + "checkpoint: out", kProgram + "checkpoint: {path: out}"},
      {kProgram + "processes: auto", kProgram},
      {kProgram + "port: auto", kProgram},
      {kProgram + "deadline: none", kProgram + "deadline: 0"},
      {kProgram + "deadline: 90", kProgram + "deadline: 1m30s"},
      {kProgram + "timeouts:", kProgram},
      {"program: {command: x y}", "program: {command: [sh, -c, x y]}"},
      {"program: {command: [a], env: {A: 1}}", kProgram + "env: {A: \"1\"}"},
      {"program: {command: [a], env: {A: 1, B: 2}}\nenv: {A: 1, C: 3}",
       kProgram + "env: {A: 1, B: 2, C: 3}"},
      {"train: {model: mlp, data: /d, optimizer: sgd}",
       "train: {model: {name: mlp}, data: {path: /d}, optimizer: {name: sgd}}"},
      {"strategy: native\n" + kNative, kNative},
      {"strategy: plain\n" + kProgram, kProgram},
  };
  for (const auto& [a, b] : pairs) EXPECT_EQ(jobOf(a), jobOf(b)) << a << "\n" << b;
}

TEST(LoadTest, WordsAndVariablesAreTakenAsWritten) {
  const Job job = jobOf(
      "program: {command: [a, 1, 1.50, true, ~, null, '', \"\\t\"]}\n"
      "env:\n  A: 007\n  B:\n  C: ~\n  D: null\n  E: 'null'\n  F: Yes\n  G:\n  null: x\n");
  EXPECT_THAT(job.program.command, ElementsAre("a", "1", "1.50", "true", "~", "null", "", "\t"));
  const std::map<std::string, std::string> env{{"A", "007"},  {"B", ""},     {"C", "~"},
                                               {"D", "null"}, {"E", "null"}, {"F", "Yes"},
                                               {"G", ""},     {"null", "x"}};
  EXPECT_EQ(job.env, env);
}

TEST(LoadTest, SyncIsAWordOrANumberOfSteps) {
  const auto sync = [](const std::string& value) {
    return jobOf("train: {model: mlp, data: /d, sync: " + value + "}").train.sync;
  };
  EXPECT_EQ(sync("step"), (Sync{SyncMode::kStep, 0}));
  EXPECT_EQ(sync("end"), (Sync{SyncMode::kEnd, 0}));
  EXPECT_EQ(sync("{every: 50}"), (Sync{SyncMode::kEvery, 50}));
}

struct Mistake {
  std::string text;
  std::vector<std::string> problems;
};

TEST(LoadTest, SaysWhatIsWrongWithAValue) {
  const std::vector<Mistake> mistakes{
      {"workers: -2\n", {"job.yaml:2:10: workers: must be 1 or more, got -2"}},
      {"workers: two\n",
       {"job.yaml:2:10: workers: must be a whole number or {min, max}, got \"two\""}},
      {"workers: 99999999999999999999\n",
       {"job.yaml:2:10: workers: must be 10000 or less, got 99999999999999999999"}},
      {"workers: 2.5\n", {"job.yaml:2:10: workers: must be a whole number or {min, max}, got 2.5"}},
      {"workers: \"2\"\n",
       {"job.yaml:2:10: workers: must be a whole number or {min, max}, got the text \"2\""}},
      {"workers: [1]\n",
       {"job.yaml:2:10: workers: must be a whole number or {min, max}, got a list"}},
      {"workers:\n", {"job.yaml:2:1: workers: has no value"}},
      {"workers: {min: 1}\n", {"job.yaml:2:1: workers.max: is missing"}},
      {"workers: {min: 0, max: 2}\n", {"job.yaml:2:16: workers.min: must be 1 or more, got 0"}},
      {"roles: {worker: 0}\n", {"job.yaml:2:17: roles.worker: must be 1 or more, got 0"}},
      {"processes: 0\n", {"job.yaml:2:12: processes: must be 1 or more, got 0"}},
      {"processes: all\n",
       {"job.yaml:2:12: processes: must be a whole number or auto, got \"all\""}},
      {"port: 65536\n", {"job.yaml:2:7: port: must be 65535 or less, got 65536"}},
      {"strategy: pytorch\n",
       {"job.yaml:2:11: strategy: must be plain, torch, tensorflow, mpi, horovod or native, got "
        "\"pytorch\"; did you mean \"torch\"?"}},
      {"deadline: soon\n",
       {"job.yaml:2:11: deadline: must be a duration (30s, 1h30m) or never, got \"soon\""}},
      {"timeouts: {stop: -1}\n",
       {"job.yaml:2:18: timeouts.stop: must be a duration (30s, 1h30m), got -1"}},
      {"timeouts: {stop: never}\n",
       {"job.yaml:2:18: timeouts.stop: must be a duration (30s, 1h30m), got \"never\""}},
      {"resources: {memory: lots}\n",
       {"job.yaml:2:21: resources.memory: must be a size (512Mi, 2Gi), got \"lots\""}},
      {"resources: {cpus: -1}\n", {"job.yaml:2:19: resources.cpus: must be 0 or more, got -1"}},
      {"resources: {cpus: .nan}\n",
       {"job.yaml:2:19: resources.cpus: must be a number, got \".nan\""}},
      {"resources: 5\n", {"job.yaml:2:12: resources: must be a map of fields, got 5"}},
      {"name: Foo\n",
       {"job.yaml:2:7: name: must be at most 40 lower-case letters, digits and '-', begin with a "
        "letter and not end with '-', got \"Foo\""}},
      {"name: [a]\n", {"job.yaml:2:7: name: must be a text, got a list"}},
      {"output: \"a\\0b\"\n", {"job.yaml:2:9: output: must not contain a NUL character"}},
      {"env: {A=B: 1}\n",
       {"job.yaml:2:7: env.A=B: must not have '=' or control characters in its name"}},
      {"env: {DURE_RANK: 1}\n",
       {"job.yaml:2:7: env.DURE_RANK: names that begin with DURE_ are reserved"}},
      {"env: {\"\": 1}\n", {"job.yaml:2:7: env.: must not be empty"}},
      {"env: {A: [1]}\n", {"job.yaml:2:10: env.A: must be a text, got a list"}},
      {"env: [A]\n", {"job.yaml:2:6: env: must be a map of texts, got a list"}},
      {"volumes: {path: /a}\n", {"job.yaml:2:10: volumes: must be a list of maps, got a map"}},
      {"volumes: [/a]\n", {"job.yaml:2:11: volumes[0]: must be a map of fields, got \"/a\""}},
      {"volumes: [{claim: a}]\n", {"job.yaml:2:11: volumes[0].path: is missing"}},
      {"volumes: [{path: a/../b, claim: b}]\n",
       {"job.yaml:2:18: volumes[0].path: must be a path without '..' and ':', got \"a/../b\""}},
      {"volumes: [{path: '', claim: b}]\n",
       {"job.yaml:2:18: volumes[0].path: must be a path without '..' and ':', got \"\""}},
      {"volumes: [{path: a, host: b}]\n",
       {"job.yaml:2:27: volumes[0].host: must be an absolute path, got \"b\""}},
      {"clean: pods\n", {"job.yaml:2:8: clean: must be none, workers or all, got \"pods\""}},
      {"volumes: [{path: /a, claim: b, read_only: yes}]\n",
       {"job.yaml:2:43: volumes[0].read_only: must be true or false, got \"yes\""}},
      {"local: {networks: [a], address: localhost}\n",
       {"job.yaml:2:33: local.address: must be an IPv4 or IPv6 address, got \"localhost\""}},
      {"local: {networks: [\"\"], address: \"::1\"}\n",
       {"job.yaml:2:20: local.networks[0]: must not be empty"}},
  };
  for (const auto& [text, problems] : mistakes) {
    EXPECT_EQ(problemsOf(kProgram + text), problems) << text;
  }
}

TEST(LoadTest, SaysWhatIsWrongWithATraining) {
  const std::vector<Mistake> mistakes{
      {"train: {model: mpl, data: /d}\n",
       {"job.yaml:1:16: train.model: must be convnet, mlp, text, linear or {name, file, weights, "
        "…}, "
        "got "
        "\"mpl\"; did you mean \"mlp\"?"}},
      {"train: {model: {name: mpl}, data: /d}\n",
       {"job.yaml:1:23: train.model.name: must be convnet, mlp, text or linear, got \"mpl\"; did "
        "you "
        "mean \"mlp\"?"}},
      {"train: {model: {name: mlp, hidden: [a, 0]}, data: /d}\n",
       {"job.yaml:1:37: train.model.hidden[0]: must be a whole number, got \"a\"",
        "job.yaml:1:40: train.model.hidden[1]: must be 1 or more, got 0"}},
      {"train: {model: mlp, data: [1]}\n",
       {"job.yaml:1:27: train.data: must be a text or {path, format, train, …}, got a list"}},
      {"train: {model: mlp, data: /d, optimizer: {lr: 0}}\n",
       {"job.yaml:1:47: train.optimizer.lr: must be above 0, got 0"}},
      {"train: {model: mlp, data: /d, epochs: 0, batch: 0, seed: -1}\n",
       {"job.yaml:1:39: train.epochs: must be 1 or more, got 0",
        "job.yaml:1:49: train.batch: must be 1 or more, got 0",
        "job.yaml:1:58: train.seed: must be 0 or more, got -1"}},
      {"train: {model: mlp, data: /d, sync: sometimes}\n",
       {"job.yaml:1:37: train.sync: must be step, end or {every, momentum, lr}, got "
        "\"sometimes\""}},
      {"train: {model: mlp, data: /d, sync: {}}\n",
       {"job.yaml:1:31: train.sync.every: is missing"}},
      {"train: {model: {name: mlp, file: a.pt}, data: /d}\n",
       {"job.yaml:1:9: train.model: has a name and a file; give one of them"}},
      {"train: {model: {name: mlp, lstm: 4, dropout: 1}, data: /d}\n",
       {"job.yaml:1:28: train.model.lstm: only the model text has it",
        "job.yaml:1:37: train.model.dropout: must be below 1, got 1"}},
      {"train: {model: {file: a.pt, hidden: [2]}, data: /d}\noutput: m.h5\n",
       {"job.yaml:1:29: train.model.hidden: a model from a file has its own",
        "job.yaml:2:1: output: a TorchScript module cannot be written as .h5; give .pt or "
        ".safetensors"}},
      {"train: {model: {name: text, vocabulary: 4}, data: {path: /d, classes: -2}}\n",
       {"job.yaml:1:71: train.data.classes: must be -1 or more, got -2"}},
      {"train: {model: {name: mlp, vocabulary: 4}, data: /d}\n",
       {"job.yaml:1:28: train.model.vocabulary: only the model text has it"}},
      {"train: {model: mlp, data: /d, optimizer: {nesterov: true, name: sgd}}\noutput: m.txt\n",
       {"job.yaml:1:43: train.optimizer.nesterov: needs a momentum",
        "job.yaml:2:1: output: must end in .h5 (Keras), .pt (TorchScript) or .safetensors"}},
      {"workers: {min: 1, max: 2}\ntrain: {model: mlp, data: /d, sync: end}\n",
       {"job.yaml:2:31: train.sync: with one-shot averaging the workers cannot become fewer; give "
        "one number of workers"}},
      {"train: {data: /d}\n", {"job.yaml:1:1: train.model: is missing; a native job needs one"}},
      {"train: {model: mlp}\n",
       {"job.yaml:1:1: train.data.path: is missing; a native job needs it"}},
      {"strategy: native\n", {"job.yaml: train: is missing; a native job needs it"}},
      {"strategy: torch\nprogram: {command: [a]}\n" + kNative,
       {"job.yaml:3:1: train: only native jobs have it; this job's strategy is torch"}},
      {kNative + kProgram,
       {"job.yaml:2:11: program.command: a native job trains by itself and runs no program"}},
  };
  for (const auto& [text, problems] : mistakes) EXPECT_EQ(problemsOf(text), problems) << text;
}

TEST(LoadTest, SuggestsTheFieldThatWasMeant) {
  const std::vector<Mistake> mistakes{
      {"worker: 2\n", {"job.yaml:2:1: worker: unknown field; did you mean \"workers\"?"}},
      {"workdir: a\n", {"job.yaml:2:1: workdir: unknown field; did you mean \"program.workdir\"?"}},
      {"epoch: 2\n", {"job.yaml:2:1: epoch: unknown field; did you mean \"train.epochs\"?"}},
      {"lr: 2\n", {"job.yaml:2:1: lr: unknown field; did you mean \"train.optimizer.lr\"?"}},
      {"flavour: 2\n", {"job.yaml:2:1: flavour: unknown field"}},
      {"x: 2\n", {"job.yaml:2:1: x: unknown field"}},
      {"volumes:\n  - path: /a\n    clam: b\n",
       {"job.yaml:4:5: volumes[0].clam: unknown field; did you mean \"volumes.claim\"?"}},
      {"strategy: native\ntrain:\n  epoch: 2\n",
       {"job.yaml:4:3: train.epoch: unknown field; did you mean \"train.epochs\"?"}},
      {"\"\\e[31m\": 1\n", {"job.yaml:2:1: \\x1b[31m: unknown field"}},
  };
  for (const auto& [text, problems] : mistakes) {
    std::vector<std::string> found = problemsOf(kProgram + text);
    EXPECT_THAT(found, testing::IsSupersetOf(problems)) << text;
  }
}

TEST(LoadTest, ChecksTheRulesBetweenFields) {
  const std::vector<Mistake> mistakes{
      {"workers: {min: 3, max: 2}\n",
       {"job.yaml:2:11: workers.min: must not be above max, got 3 above 2"}},
      {"workers: 2\nroles: {worker: 3}\n",
       {"job.yaml:3:9: roles.worker: says something else than workers"}},
      {"env: {A: 1}\nstrategy: torch\nroles: {ps: 1}\n",
       {"job.yaml:4:9: roles.ps: only tensorflow and plain jobs have one; this job's strategy is "
        "torch"}},
      {"strategy: mpi\nroles: {chief: 1, evaluator: 1}\n",
       {"job.yaml:3:9: roles.chief: only tensorflow and plain jobs have one; this job's strategy "
        "is mpi",
        "job.yaml:3:19: roles.evaluator: only tensorflow and plain jobs have one; this job's "
        "strategy "
        "is mpi"}},
      {"roles: {evaluator: 1}\n", {"job.yaml:2:9: roles.evaluator: needs a chief"}},
      {"gpus: 2\nworkers: 2\n",
       {"job.yaml:2:1: gpus: leaves the number of workers to the plan; give either gpus or "
        "workers"}},
      {"even: true\n",
       {"job.yaml:2:1: even: says how gpus are split; give gpus, the number of the whole job"}},
      {"gpus: 2\nroles: {ps: 1}\n",
       {"job.yaml:3:9: roles.ps: has no share of gpus; give workers and resources.gpus instead"}},
      {"nodes: {tolerations: [{operator: Exists, value: a}]}\n",
       {"job.yaml:2:23: nodes.tolerations[0]: has a value, which the operator Exists does not look "
        "at"}},
      {"nodes: {affinity: [{key: a, operator: Exists, values: [b]}]}\n",
       {"job.yaml:2:20: nodes.affinity[0]: has values, which its operator does not look at"}},
      {"resources: {cpus: 2, limits: {cpus: 1}}\n",
       {"job.yaml:2:31: resources.limits.cpus: must not be below resources.cpus, got 1 below 2"}},
      {"resources: {memory: 2Gi, limits: {memory: 1Gi}}\n",
       {"job.yaml:2:35: resources.limits.memory: must not be below resources.memory, got 1Gi below "
        "2Gi"}},
      {"kubernetes: {pull_secrets: [ok, Not/ok]}\n",
       {"job.yaml:2:14: kubernetes.pull_secrets: must be names in Kubernetes, got \"Not/ok\""}},
      {"gpus: 2\nresources: {gpus: 1}\n",
       {"job.yaml:2:1: gpus: leaves the GPUs of a task to the plan; give either gpus or "
        "resources.gpus"}},
      {"workers: 10000\nprocesses: 11\n",
       {"job.yaml:2:1: workers: 10000 workers of 11 processes are more than 100000 processes"}},
      {"horovod: {controller: mpi}\n",
       {"job.yaml:2:1: horovod: only horovod jobs have it; this job's strategy is plain"}},
      {"restarts: {backoff: 10s}\n",
       {"job.yaml:2:12: restarts.backoff: backoff must not be above max_backoff, got 10s above "
        "5s"}},
      {"restarts: {max_backoff: 0}\n",
       {"job.yaml:2:12: restarts.max_backoff: backoff must not be above max_backoff, got 200ms "
        "above "
        "0s"}},
      {"volumes: [{path: /a}]\n", {"job.yaml:2:11: volumes[0]: needs either a claim or a host"}},
      {"volumes: [{path: /a, claim: b, host: /c}]\n",
       {"job.yaml:2:11: volumes[0]: needs either a claim or a host"}},
      {"volumes: [{path: /a, claim: b}, {path: /a, claim: c}]\n",
       {"job.yaml:2:34: volumes[1].path: /a is the path of another volume, too"}},
      {"local: {networks: [a, b]}\n",
       {"job.yaml:2:1: local.address: is missing; programs in other networks need it"}},
  };
  for (const auto& [text, problems] : mistakes) {
    EXPECT_EQ(problemsOf(kProgram + text), problems) << text;
  }
  EXPECT_THAT(problemsOf("program: {command: [a], env: {A: 1}}\nenv: {A: 2}\n"),
              ElementsAre("job.yaml:1:31: program.env.A: has another value in env"));
  EXPECT_THAT(problemsOf("program: {command: ['', a]}\n"),
              ElementsAre("job.yaml:1:11: program.command: the first word is empty, but names the "
                          "program"));
  EXPECT_THAT(
      problemsOf("workers: 2\n"),
      ElementsAre("job.yaml: program.command: is missing; give a program to run, or a train "
                  "section for a native job"));
}

TEST(LoadTest, AllowsWhatTheRulesDoNotForbid) {
  jobOf("strategy: tensorflow\nroles: {chief: 1, worker: {min: 1, max: 4}, ps: 2, evaluator: 1}\n" +
        kProgram);
  jobOf("strategy: horovod\nhorovod: {controller: gloo}\n" + kProgram);
  jobOf("gpus: 6\n" + kProgram);
  jobOf("local: {networks: [a, b], address: 10.0.0.1}\n" + kProgram);
  jobOf("train: {model: {file: net.pt}, data: /d}\n");
}

TEST(LoadTest, TellsAllProblemsOnceInTheOrderOfTheFile) {
  EXPECT_THAT(
      problemsOf("workers: {max: x, min: 0}\nstrategy: best\nnmae: a\ngpus: -1\n",
                 {set("port", "x"), set("deadline", "y")}),
      ElementsAre("job.yaml:1:16: workers.max: must be a whole number, got \"x\"",
                  "job.yaml:1:24: workers.min: must be 1 or more, got 0",
                  "job.yaml:2:11: strategy: must be plain, torch, tensorflow, mpi, horovod or "
                  "native, got \"best\"",
                  "job.yaml:3:1: nmae: unknown field; did you mean \"name\"?",
                  "job.yaml:4:7: gpus: must be 0 or more, got -1",
                  "--set port: must be a whole number or auto, got \"x\"",
                  "--set deadline: must be a duration (30s, 1h30m) or never, got \"y\""));
}

TEST(LoadTest, CountsWhatIsTooMuchToTell) {
  std::string text;
  for (int i = 0; i < 60; ++i) text += "field" + std::to_string(i) + ": 1\n";
  const auto problems = problemsOf(text);
  ASSERT_EQ(problems.size(), kMaxProblems + 1);
  EXPECT_EQ(problems.back(), "job.yaml: 10 more problems are not shown");
}

TEST(OverrideTest, ReplacesWhatTheFileHas) {
  const std::vector<std::tuple<std::string, Override, std::string>> cases{
      {kProgram + "workers: 2", set("workers", "3"), kProgram + "workers: 3"},
      {kProgram + "workers: 2", set("workers", "{min: 2, max: 4}"),
       kProgram + "workers: {min: 2, max: 4}"},
      {kProgram + "workers: 2", set("workers.max", "4"), kProgram + "workers: {min: 2, max: 4}"},
      {kProgram + "workers: 2", set("roles.worker", "4"), kProgram + "workers: 4"},
      {kProgram + "roles: {worker: 2}", set("workers", "4"), kProgram + "workers: 4"},
      {kProgram + "workers: 2", set("roles", "{worker: 4}"), kProgram + "workers: 4"},
      {kProgram, set("env.A.B", "x: [y"), kProgram + "env: {A.B: 'x: [y'}"},
      {kProgram, set("program.env.A", ""), kProgram + "env: {A: ''}"},
      {kProgram + "env: {A: 1}", set("program.env.A", "2"), kProgram + "env: {A: 2}"},
      {kProgram, set("timeouts.stop", "1m"), kProgram + "timeouts: {stop: 1m}"},
      {kProgram + "timeouts:", set("timeouts.stop", "1m"), kProgram + "timeouts: {stop: 1m}"},
      {kProgram, set("program.command", "x y"), "program: {command: x y}"},
      {kProgram, set("volumes", "[{path: /a, claim: b}]"),
       kProgram + "volumes: [{path: /a, claim: b}]"},
      {kProgram,
       {"--", "program.command", std::vector<std::string>{"x", "~", "a: b"}},
       "program: {command: [x, '~', 'a: b']}"},
      {kNative, set("train.model.hidden", "[1]"),
       "train: {model: {name: mlp, hidden: [1]}, data: /d}"},
      {"train: {model: mlp, data: /d, sync: end}", set("train.sync.every", "5"),
       "train: {model: mlp, data: /d, sync: {every: 5}}"},
      {"strategy: plain\n" + kNative, set("strategy", "native"), kNative},
  };
  for (const auto& [before, override, after] : cases) {
    EXPECT_EQ(jobOf(before, {override}), jobOf(after)) << before << " with " << override.path;
  }
}

TEST(OverrideTest, TheLastOneCounts) {
  EXPECT_EQ(jobOf(kProgram, {set("workers", "3"), set("workers", "4")}).workers.max, 4);
}

TEST(OverrideTest, NamesWhatWasTyped) {
  const std::vector<std::pair<Override, std::string>> cases{
      {set("workers", "-1"), "--set workers: must be 1 or more, got -1"},
      {{"--workers", "workers", "x"}, "--workers: must be a whole number or {min, max}, got \"x\""},
      {set("workers", "{min: 0, max: 1}"), "--set workers: workers.min: must be 1 or more, got 0"},
      {set("train.epoch", "1"), "--set train.epoch: unknown field; did you mean \"train.epochs\"?"},
      {set("volumes.path", "1"), "--set volumes.path: is inside of a list; set the whole list"},
      {set("", "1"), "--set : unknown field"},
      {set("env.", "1"), "--set env.: unknown field"},
      {set("workers", "[1"), "--set workers: not valid YAML: end of sequence flow not found"},
      {set("workers", ""), "--set workers: must be a whole number or {min, max}, got \"\""},
      {set("env.DURE_X", "1"), "--set env.DURE_X: names that begin with DURE_ are reserved"},
  };
  for (const auto& [override, problem] : cases) {
    EXPECT_THAT(problemsOf(kProgram, {override}), ElementsAre(problem));
  }
}

TEST(LoadTest, WithoutAFileEverythingComesFromTheCommandLine) {
  const Loaded loaded = loadJobOverrides(
      {{"--workers", "workers", "2"},
       {"--strategy", "strategy", "torch"},
       {"--", "program.command", std::vector<std::string>{"python3", "train.py"}}});
  EXPECT_THAT(lines(loaded), IsEmpty());
  EXPECT_EQ(loaded.job.name, "train");
  EXPECT_EQ(loaded.job.program.workdir, absolutePath("."));
  EXPECT_THAT(
      lines(loadJobOverrides({})),
      ElementsAre("program.command: is missing; give a program to run, or a train section for "
                  "a native job"));
}

TEST(LoadTest, RelativeWorkdirsBeginAtTheJobFile) {
  const auto workdir = [](const std::string& value) {
    return jobOf("program: {command: [a], workdir: " + value + "}").program.workdir;
  };
  EXPECT_EQ(jobOf(kProgram).program.workdir, "/jobs");
  EXPECT_EQ(workdir("."), "/jobs");
  EXPECT_EQ(workdir("src/"), "/jobs/src");
  EXPECT_EQ(workdir("../x"), "/x");
  EXPECT_EQ(workdir("/"), "/");
  EXPECT_EQ(workdir("/abs"), "/abs");
}

class LoadFileTest : public testing::Test {
 protected:
  void SetUp() override { fs::create_directories(directory_); }
  void TearDown() override { fs::remove_all(directory_); }

  std::string file(const std::string& name, const std::string& content) {
    std::ofstream(directory_ / name) << content;
    return (directory_ / name).string();
  }

  fs::path directory_ = fs::path(testing::TempDir()) / ("load_test." + std::to_string(getpid()));
};

TEST_F(LoadFileTest, TakesNameAndDirectoryFromTheFile) {
  const Loaded loaded = loadJobFile(file("My Job_2.yaml", kProgram), {});
  EXPECT_THAT(lines(loaded), IsEmpty());
  EXPECT_EQ(loaded.job.name, "my-job-2");
  EXPECT_EQ(loaded.job.program.workdir, directory_.string());
}

TEST_F(LoadFileTest, RefusesAHugeFileWithoutReadingIt) {
  const std::string path = file("huge.yaml", "");
  fs::resize_file(path, 100'000'000);
  EXPECT_THAT(lines(loadJobFile(path, {})), ElementsAre(path + ": larger than 1048576 bytes"));
}

TEST_F(LoadFileTest, SaysWhyAFileCannotBeRead) {
  const std::string missing = (directory_ / "missing.yaml").string();
  EXPECT_THAT(lines(loadJobFile(missing, {})),
              ElementsAre(missing + ": No such file or directory"));
  EXPECT_THAT(lines(loadJobFile(directory_.string(), {})),
              ElementsAre(directory_.string() + ": is a directory"));
}

}  // namespace
}  // namespace dure::spec
