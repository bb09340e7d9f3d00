#include "pipeline/load.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/files.h"
#include "pipeline/schema.h"

namespace dure::pipeline {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::string> problemsOf(std::string_view text,
                                    const std::vector<Setting>& settings = {}) {
  std::vector<std::string> texts;
  for (const spec::Problem& problem : loadPipelineText("p.yaml", text, settings).problems) {
    texts.push_back(problem.text());
  }
  return texts;
}

TEST(LoadPipelineTest, NeedsAreThoseWrittenAndThoseReferredTo) {
  const LoadedPipeline loaded = loadPipelineText("dir/p.yaml", R"(
parameters: {n: 2, words: [x, y]}
steps:
  a: {command: "true"}
  b: {command: "true"}
  c: {needs: b, each: "${{ n }}", command: "cat ${{ steps.a }}/x"}
  d: {each: "${{ words }}", command: [echo, "${{ item }}"]}
)",
                                                 {{"--set n", "n", "3"}});
  ASSERT_THAT(loaded.problems, IsEmpty()) << loaded.problems.front().text();
  EXPECT_EQ(loaded.pipeline.name, "p");
  EXPECT_THAT(loaded.pipeline.find("c")->needs, ElementsAre("a", "b"));
  EXPECT_EQ(loaded.pipeline.find("c")->items.size(), 3u);
  EXPECT_THAT(loaded.pipeline.find("d")->items, ElementsAre("x", "y"));
  EXPECT_EQ(loaded.pipeline.workdir, absolutePath("dir"));
  EXPECT_EQ(loaded.pipeline.find("e"), nullptr);
}

TEST(LoadPipelineTest, TheRecordMeansTheSame) {
  const LoadedPipeline first =
      loadPipelineText("dir/p.yaml", R"(
parameters: {n: 2, text: "07", flag: true}
steps:
  a: {command: "echo ${{ text }} ${{ flag }} $${{ no }}", env: {A: "${{ n * 3 }}"}}
  b:
    each: [x, "5"]
    job: {workers: "${{ n }}", program: {command: "echo ${{ text }}"}}
)",
                       {{"--set n", "n", "4"}, {"--set text", "text", "8: ${{ out }}"}});
  ASSERT_TRUE(first.ok()) << first.problems.front().text();
  const LoadedPipeline again = loadPipelineText("elsewhere/q.yaml", first.text, {});
  ASSERT_TRUE(again.ok()) << again.problems.front().text();
  EXPECT_EQ(again.text, first.text);
  EXPECT_EQ(again.pipeline.name, "p");
  EXPECT_EQ(again.pipeline.workdir, first.pipeline.workdir);
  EXPECT_EQ(again.pipeline.steps[0].command, first.pipeline.steps[0].command);
  EXPECT_EQ(again.pipeline.steps[0].env.at("A"), "12");
}

// The record is written with quotes where the file had none.
TEST(LoadPipelineTest, ANumberThatIsReferredToIsOneAlsoInTheRecord) {
  const LoadedPipeline first = loadPipelineText("p.yaml", R"(
steps:
  train:
    each: 2
    job:
      train:
        model: linear
        data: a.npz
        seed: ${{ index }}
        batch: "${{ count }}"
)",
                                                {});
  ASSERT_THAT(first.problems, IsEmpty()) << first.problems.front().text();
  const LoadedPipeline second = loadPipelineText("p.yaml", first.text, {});
  ASSERT_THAT(second.problems, IsEmpty()) << second.problems.front().text();
  EXPECT_EQ(second.text, first.text);
}

TEST(LoadPipelineTest, TellsEveryMistakeWithItsPlace) {
  EXPECT_THAT(problemsOf("steps:\n  copy: {command: x}\n  train: {needs: [copie], command: x}\n"),
              ElementsAre("p.yaml:3:19: steps.train.needs: no step 'copie'; did you mean 'copy'?"));
  EXPECT_THAT(problemsOf("steps:\n  a: {needs: b, command: x}\n  b: {needs: c, command: x}\n"
                         "  c: {needs: [b], command: x}\n"),
              ElementsAre("p.yaml:3:7: steps.b.needs: the steps wait for each other: b → c → b"));
  EXPECT_THAT(problemsOf("steps:\n  a: {needs: a, command: x}\n"),
              ElementsAre("p.yaml:2:14: steps.a.needs: a step cannot need itself"));
  EXPECT_THAT(problemsOf("name: x\n"), ElementsAre(HasSubstr("steps: has no steps")));
  EXPECT_THAT(problemsOf("steps:\n  a: {}\n"),
              ElementsAre("p.yaml:2:3: steps.a: must have a command, a job or a service"));
  EXPECT_THAT(problemsOf("steps:\n  a: {command: 'echo ${{ x', each: 0}\n"),
              ElementsAre(HasSubstr("steps.a.command: a ${{ has no }} behind it"),
                          HasSubstr("steps.a.each: must be a whole number from 1")));
  EXPECT_THAT(problemsOf("steps:\n  a: {command: 'echo ${{ index }}'}\n"),
              ElementsAre("p.yaml:2:16: steps.a.command: 'index' is for steps with each"));
  EXPECT_THAT(problemsOf("parameters: {out: 1}\nsteps: {a: {command: x}}\n"),
              ElementsAre(HasSubstr("parameters.out: is the name of something else")));
  EXPECT_THAT(problemsOf("steps:\n  a-1: {command: x}\n  a: {each: 2, command: x}\n"),
              ElementsAre(HasSubstr("steps.a: another step has a part named a-1")));
  EXPECT_THAT(problemsOf("steps: {a: {job: {train: {epoch: 2}}}}"),
              testing::Contains(HasSubstr("steps.a.job.train.epoch: unknown field")));
  EXPECT_THAT(problemsOf("steps: {a: {job: none.yaml}}"), ElementsAre(HasSubstr("none.yaml")));
  EXPECT_THAT(problemsOf("[a"), testing::SizeIs(1));
}

TEST(LoadPipelineTest, ParametersHaveTypes) {
  const std::string text =
      "parameters: {n: 1, x: 0.5, yes: true, text: a, list: [a], must: {type: whole}}\n"
      "steps: {a: {command: x}}\n";
  const Setting must{"--set must", "must", "1"};
  EXPECT_THAT(problemsOf(text, {must}), IsEmpty());
  EXPECT_THAT(problemsOf(text),
              ElementsAre(HasSubstr("parameters.must: has no default; set it with --set must=")));
  struct Row {
    const char* name;
    const char* value;
    bool good;
  };
  for (const Row& row :
       {Row{"n", "2", true}, Row{"n", "2.5", false}, Row{"n", "", false}, Row{"x", "2", true},
        Row{"x", "two", false}, Row{"yes", "false", true}, Row{"yes", "1", false},
        Row{"text", "7", true}, Row{"text", "[a", true}, Row{"text", "", true},
        Row{"list", "[b, c]", true}, Row{"list", "b", false}, Row{"nn", "1", false}}) {
    const auto problems =
        problemsOf(text, {must, {std::string("--set ") + row.name, row.name, row.value}});
    EXPECT_EQ(problems.empty(), row.good) << row.name << "=" << row.value;
  }
}

TEST(PipelineDocumentTest, ThePageInDocsIsTheGeneratedOne) {
  const auto text = readFile(DURE_DOCS "/pipeline-file.md", 1u << 20);
  ASSERT_TRUE(text) << text.error().message();
  if (*text == pipelineDocumentation()) return;
  const fs::path generated = fs::path(testing::TempDir()) / "pipeline-file.md";
  ASSERT_TRUE(replaceFile(generated.string(), pipelineDocumentation()));
  FAIL() << "docs/pipeline-file.md is old; the new one is " << generated;
}

TEST(PipelineDocumentTest, TheSchemaKnowsStepsAndJobs) {
  const nlohmann::json schema = pipelineSchema();
  EXPECT_TRUE(schema["properties"]["steps"]["additionalProperties"]["properties"].contains("each"));
  EXPECT_TRUE(schema["$defs"]["job"]["properties"].contains("workers"));
}

}  // namespace
}  // namespace dure::pipeline
