#include "spec/job_name.h"

#include <gtest/gtest.h>

#include "spec/fields.h"
#include "spec/job.h"

namespace dure::spec {
namespace {

TEST(JobNameTest, AnyTextBecomesAValidName) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"train", "train"},
      {"my_prog", "my-prog"},
      {"My Job.v2", "my-job-v2"},
      {"2nd-try", "nd-try"},
      {"", "job"},
      {"__", "job"},
      {"a--b__", "a-b"},
      {"두레", "job"},
      {std::string(50, 'x'), std::string(40, 'x')},
      {std::string(39, 'x') + "-y", std::string(39, 'x')},
  };
  for (const auto& [text, name] : cases) {
    EXPECT_EQ(toJobName(text), name);
    EXPECT_TRUE(isJobName(name));
  }
}

TEST(JobNameTest, IsTheFilesOrTheProgramsName) {
  using Words = std::vector<std::string>;
  EXPECT_EQ(defaultJobName("dir/mnist.job.yaml", {"a"}), "mnist-job");
  const std::vector<std::pair<Words, std::string>> cases{
      {{"python3", "train.py"}, "train"},
      {{"python3", "-u", "src/train.py", "--x"}, "train"},
      {{"python3", "-m", "pkg.train"}, "pkg-train"},
      {{"python3", "-c", "print()"}, "python3"},
      {{"./my_prog"}, "my-prog"},
      {{"sh", "-c", "python3 train.py"}, "train"},
      {{"env", "A=1", "python3", "train.py"}, "train"},
      {{"bash", "run.sh"}, "run"},
      {{""}, "job"},
      {{}, "job"},
  };
  for (const auto& [command, name] : cases) EXPECT_EQ(defaultJobName("", command), name);
}

TEST(JobTest, TasksHoldOneProcessPerGpu) {
  Job job;
  EXPECT_EQ(processesPerTask(job), 1);
  job.resources.gpus = 4;
  EXPECT_EQ(processesPerTask(job), 4);
  job.processes = 2;
  EXPECT_EQ(processesPerTask(job), 2);
  EXPECT_EQ(strategyName(Strategy::kTorch), "torch");
  EXPECT_EQ(strategyName(Strategy::kNative), "native");
}

}  // namespace
}  // namespace dure::spec
