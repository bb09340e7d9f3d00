#include "pipeline/graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dure::pipeline {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

Pipeline graphOf(const std::vector<std::pair<std::string, std::vector<std::string>>>& steps) {
  Pipeline pipeline;
  for (const auto& [name, needs] : steps) {
    pipeline.steps.emplace_back();
    pipeline.steps.back().name = name;
    pipeline.steps.back().needs = needs;
  }
  return pipeline;
}

TEST(GraphTest, NamesACycleInOrder) {
  EXPECT_THAT(findCycle(graphOf({{"a", {}}, {"b", {"a"}}})), IsEmpty());
  EXPECT_THAT(findCycle(graphOf({{"a", {}}, {"b", {"a", "d"}}, {"c", {"b"}}, {"d", {"c"}}})),
              ElementsAre("b", "d", "c", "b"));
  EXPECT_THAT(findCycle(graphOf({{"a", {"missing"}}})), IsEmpty());
}

TEST(GraphTest, OrdersStepsAfterWhatTheyNeed) {
  EXPECT_THAT(inOrder(graphOf({{"c", {"b"}}, {"a", {}}, {"b", {"a"}}})), ElementsAre(1, 2, 0));
}

TEST(GraphTest, DrawsOneLineForEachStep) {
  EXPECT_THAT(drawGraph(graphOf({{"a", {}}, {"b", {"a"}}, {"c", {"b"}}})),
              ElementsAre("● ", "● ", "● "));
  EXPECT_THAT(drawGraph(graphOf({{"a", {}}, {"b", {"a"}}, {"c", {"a"}}, {"d", {"b", "c"}}})),
              ElementsAre("●   ", "├─● ", "● │ ", "●─╯ "));
  EXPECT_THAT(drawGraph(graphOf({{"a", {}}, {"b", {}}, {"c", {"a", "b"}}})),
              ElementsAre("●   ", "│ ● ", "●─╯ "));
}

}  // namespace
}  // namespace dure::pipeline
