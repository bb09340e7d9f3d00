#include "train/trainer_call.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dure::train {
namespace {

using testing::HasSubstr;

std::string problemOf(const std::vector<std::string>& arguments) {
  const auto call = parseTrainerCall(arguments);
  return call ? "" : call.error().message();
}

TEST(TrainerCalls, TheWordsOfTheSeed) {
  const auto call = parseTrainerCall(
      {"--data", "0.npz", "--epoch", "3", "--batch", "100", "--savemodel", "0-model.h5"});
  ASSERT_TRUE(call);
  EXPECT_EQ(call->data, "0.npz");
  EXPECT_EQ(call->epochs, "3");
  EXPECT_EQ(call->batch, "100");
  EXPECT_EQ(outputFor(*call), "0-model.h5");
  EXPECT_EQ(parseTrainerCall({"--data=a=b.npz", "--savemodel=m.h5"})->data, "a=b.npz");
  EXPECT_TRUE(parseTrainerCall({"--help"})->help);
}

TEST(TrainerCalls, TheNumberOfTheDataStandsInFront) {
  const auto output = [](const std::string& data, const std::string& model) {
    return outputFor({.data = data, .output = model});
  };
  EXPECT_EQ(output("0.npz", "model.h5"), "0-model.h5");
  EXPECT_EQ(output("data/12.npz", "models/model.h5"), "models/12-model.h5");
  EXPECT_EQ(output("0.npz", "models/0-model.h5"), "models/0-model.h5");
  EXPECT_EQ(output("imdb.npz", "model.h5"), "model.h5");
  EXPECT_EQ(output("1.npz", "0-model.h5"), "1-0-model.h5");
}

TEST(TrainerCalls, TheNumberOfTheDataOrdersTheSamples) {
  const auto job = [](const std::string& data, const std::string& seed) {
    return *jobFor({.data = data, .output = "m.h5", .model = "mlp", .seed = seed});
  };
  EXPECT_EQ(job("data/0.npz", "").train.seed, 0u);
  EXPECT_EQ(job("data/018.npz", "").train.seed, 18u);
  EXPECT_EQ(job("data/7.npz", "3").train.seed, 3u);
  EXPECT_EQ(job("imdb.npz", "").train.seed, 1u);
  EXPECT_EQ(job("99999999999999999999999.npz", "").train.seed, 1u);
  for (const char* data : {"0.npz", "7.npz", "imdb.npz"}) {
    EXPECT_EQ(job(data, "").train.model.seed, 1u);
  }
}

TEST(TrainerCalls, MistakesAreOneSentence) {
  EXPECT_THAT(problemOf({"--savemodel", "m.h5"}), HasSubstr("--data"));
  EXPECT_THAT(problemOf({"--data", "0.npz"}), HasSubstr("--savemodel"));
  EXPECT_THAT(problemOf({"--dat", "0.npz"}), HasSubstr("did you mean --data?"));
  EXPECT_THAT(problemOf({"--data"}), HasSubstr("needs a value"));
  EXPECT_THAT(problemOf({"--data", "0.npz", "more"}), HasSubstr("more"));
}

}  // namespace
}  // namespace dure::train
