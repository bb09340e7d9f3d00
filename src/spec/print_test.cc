#include "spec/print.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "spec/test_jobs.h"

namespace dure::spec {
namespace {

TEST(PrintTest, ShowsWhatIsNotTheDefaultInItsShortestForm) {
  EXPECT_EQ(printJob(jobOf("program: {command: [python3, train.py, -x, 3]}")),
            "name: job\n"
            "strategy: plain\n"
            "workers: 1\n"
            "program:\n"
            "  command: [python3, train.py, -x, \"3\"]\n"
            "  workdir: /jobs\n");
  EXPECT_EQ(
      printJob(jobOf("{name: nn, gpus: 6, strategy: torch, program: {command: a, workdir: /}, env: "
                     "{B: 'x: y', A: yes}, volumes: [{path: /a, claim: b, read_only: true}, {path: "
                     "/c, host: /d}], timeouts: {stop: 90, heartbeat: 0}}")),
      "name: nn\n"
      "strategy: torch\n"
      "gpus: 6\n"
      "program:\n"
      "  command: [sh, -c, a]\n"
      "  workdir: /\n"
      "env:\n"
      "  A: \"yes\"\n"
      "  B: \"x: y\"\n"
      "volumes:\n"
      "  - path: /a\n"
      "    claim: b\n"
      "    read_only: true\n"
      "  - path: /c\n"
      "    host: /d\n"
      "timeouts:\n"
      "  stop: 1m30s\n"
      "  heartbeat: never\n");
}

TEST(PrintTest, WhatIsPrintedIsReadAsTheSameJob) {
  const std::string program = "program: {command: [a]}\n";
  const std::string train = "train: {model: mlp, data: /d";
  const std::vector<std::string> jobs{
      program + "workers: {min: 1, max: 3}",
      program + "workers: {min: 2, max: 3}",
      program + "workers: 10000",
      program + "strategy: tensorflow\nroles: {chief: 1, ps: 3, evaluator: 1}",
      program + "strategy: horovod\nhorovod: {controller: mpi}\nprocesses: 4\nport: 1",
      program + "resources: {cpus: 0.1, memory: 1500M, gpus: 2}",
      program + "gpus: 6\neven: true",
      program +
          "nodes: {selector: {example.com/disk: ssd, a: 'true'}, gpu: amd.com/gpu, zone: z, "
          "rack: r, affinity: [{key: a, operator: Lt, values: ['5']}], tolerations: "
          "[{operator: Exists}, {key: k, value: v, effect: NoExecute}]}",
      program + "resources: {cpus: 1e-7, memory: 9007199254740993}",
      program + "restarts: 0",
      program + "restarts: {limit: 7, backoff: 1ms, max_backoff: 1d2h3m4s5ms}",
      program + "restarts: {backoff: 0, max_backoff: 0}",
      program +
          "timeouts: {start: never, stop: 0, heartbeat: none, progress: 36500d}\ndeadline: 0.5",
      program + "checkpoint: a b\noutput: 'null'",
      program + "checkpoint: {every: 5, keep: 1}",
      program + "local: {networks: [a, '1', 'b c'], address: '::1'}",
      program +
          "env: {' a ': ' x ', '#': '# y', '- b': '- z', '? c': \"\\x01\\x7f\\\"\\\\\", ~: null}",
      program +
          "env: {A: \"a\\nb\\n\\n\", B: \"\\r\\n\\t \", C: '두레', D: \"\\u2028\\uFEFF\\u0085\"}",
      program + "env: {A: \"a\\n\\n  b: c\\n# d\\n\", B: \" a\\n\", C: \"a\\nb\", D: \"- x\\n\"}",
      program + "volumes: [{path: out, claim: c, tasks: chief}]\nclean: all\nttl: 1h",
      program +
          "checkpoint: {path: a, claim: b}\nrender: {claim: true, inspector: true, size: 1Gi}",
      "program: {command: [a], pull: Never, ship: false, ship_limit: 1Gi, user: 0}",
      program + "env: {A: '---', B: '...', C: '--- x', D: '-', E: '--', F: '-1', G: .inf, H: ..}",
      "program: {command: ['-', ':', '{', '[', ',', '&a', '*a', '!x', '|', '>', '%', '@', '`', "
      "\"'\"]}",
      "program: {command: [a, '" + std::string(5000, 'x') + " ']}",
      "program: {command: \"for i in 1 2; do\\n  echo $i\\ndone\\n\", image: 'r:5000/i@sha256:0'}",
      program + "env: {A: \"\\_\\N\\L\\P\\e\\u00e9\"}",
      train + "}",
      train + ", epochs: 7, batch: 3, seed: 9007199254740991}",
      train + ", optimizer: {name: sgd, lr: 3e-4}, sync: {every: 9}}",
      train + ", optimizer: adamw, sync: end}",
      "train: {model: {name: mlp, hidden: [1, 2]}, data: {path: '~'}}",
      "train: {model: {file: net.pt}, data: d}\nworkers: 4\nresources: {gpus: 1}",
      "train: {model: {file: net.pt, vocabulary: 9}, data: {path: d, classes: 0}}",
  };
  for (const std::string& text : jobs) {
    const Job job = jobOf(text);
    const std::string printed = printJob(job);
    EXPECT_EQ(jobOf(printed), job) << printed;
    EXPECT_EQ(printJob(jobOf(printed)), printed);
  }
}

}  // namespace
}  // namespace dure::spec
