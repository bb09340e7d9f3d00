#include "pipeline/decide.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pipeline/load.h"

namespace dure::pipeline {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* kFlow = R"(
steps:
  copy: {command: x}
  train: {needs: copy, each: 3, command: x}
  serve: {needs: copy, service: {command: x}}
  average: {needs: train, command: x}
)";

// Parts: copy, train-0, train-1, train-2, serve, average. One letter each: w r(unning) y(ready)
// s(ucceeded) c(ached) f(ailed) t(stopped).
class Situation {
 public:
  explicit Situation(const std::string& letters)
      : pipeline(loadPipelineText("p.yaml", kFlow, {}).pipeline), parts(partsOf(pipeline)) {
    for (const char letter : letters) {
      PartState state;
      switch (letter) {
        case 'r':
          state.status = PartStatus::kRunning;
          break;
        case 'y':
          state.status = PartStatus::kReady;
          break;
        case 's':
          state.status = PartStatus::kSucceeded;
          break;
        case 'c':
          state.status = PartStatus::kCached;
          break;
        case 'f':
          state.status = PartStatus::kFailed;
          state.reason = "bad luck";
          break;
        case 't':
          state.status = PartStatus::kStopped;
          break;
        default:
          break;
      }
      states.push_back(state);
    }
    retry_at.resize(parts.size());
  }

  Decision decideWith(Capacity capacity = {}, bool stop = false) const {
    return decide(pipeline, parts, states, retry_at, capacity, FakeClock().now(), stop);
  }

  Pipeline pipeline;
  std::vector<Part> parts;
  std::vector<PartState> states;
  std::vector<TimePoint> retry_at;
};

TEST(DecideTest, StartsWhatHasAllItNeedsAndRoom) {
  struct Row {
    const char* states;
    Capacity capacity;
    std::vector<std::size_t> start;
  };
  const Row rows[] = {
      {"wwwwww", {}, {0}},
      {"rwwwww", {}, {}},
      {"swwwww", {}, {1, 2, 3, 4}},
      {"cwwwww", {.parts = 2}, {1, 2, 4}},
      {"srwwyw", {.parts = 2}, {2}},
      {"swwwww", {.cpus = 2}, {1, 2, 4}},
      {"srrwyw", {.cpus = 2}, {}},
      {"swwwyw", {.cpus = 0.5}, {1}},  // more than there is, but not never
      {"swwwyw", {.parts = 3, .cpus = 1}, {1, 2, 3}},
      {"ssscyw", {}, {5}},
      {"ssrsyw", {}, {}},
  };
  for (const Row& row : rows) {
    const Decision decision = Situation(row.states).decideWith(row.capacity);
    EXPECT_EQ(decision.start, row.start) << row.states;
    EXPECT_THAT(decision.stop, IsEmpty());
    EXPECT_FALSE(decision.finish) << row.states;
  }
}

TEST(DecideTest, EndsWhenAllIsDone) {
  const Decision decision = Situation("ccssys").decideWith();
  EXPECT_EQ(decision.finish, gang::Outcome::kSucceeded);
  EXPECT_THAT(decision.stop, IsEmpty());  // the service stays
}

TEST(DecideTest, AfterAFailureNothingStartsAndServicesEndLast) {
  Decision decision = Situation("sfrwyw").decideWith();
  EXPECT_THAT(decision.start, IsEmpty());
  EXPECT_THAT(decision.stop, IsEmpty());
  EXPECT_FALSE(decision.finish);
  decision = Situation("sfswyw").decideWith();
  EXPECT_THAT(decision.stop, ElementsAre(4));
  EXPECT_FALSE(decision.finish);
  decision = Situation("sfswtw").decideWith();
  EXPECT_EQ(decision.finish, gang::Outcome::kFailed);
  EXPECT_EQ(decision.reason, "train-0 failed: bad luck");
}

TEST(DecideTest, StopsEverythingWhenAsked) {
  Decision decision = Situation("srrwyw").decideWith({}, true);
  EXPECT_THAT(decision.stop, ElementsAre(1, 2, 4));
  EXPECT_THAT(decision.start, IsEmpty());
  decision = Situation("sttwtw").decideWith({}, true);
  EXPECT_EQ(decision.finish, gang::Outcome::kStopped);
}

TEST(DecideTest, WaitsBeforeItTriesAgain) {
  Situation situation("wwwwww");
  situation.retry_at[0] = FakeClock().now() + Duration(1);
  EXPECT_THAT(situation.decideWith().start, IsEmpty());
  EXPECT_EQ(retryPause(1), Duration(200));
  EXPECT_EQ(retryPause(3), Duration(800));
  EXPECT_EQ(retryPause(100), Duration(5000));
}

}  // namespace
}  // namespace dure::pipeline
