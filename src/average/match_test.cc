#include "average/match.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dure::average {
namespace {

using format::DType;
using format::TensorPlace;
using testing::AllOf;
using testing::HasSubstr;

TensorPlace tensor(const std::string& group, const std::string& leaf,
                   std::vector<std::int64_t> shape, DType type = DType::kF32) {
  const std::string name = group + "." + leaf;
  return {.name = name,
          .key = name,
          .group = group,
          .leaf = leaf,
          .dtype = type,
          .shape = std::move(shape)};
}

NamedModel model(const std::string& path, std::vector<TensorPlace> tensors,
                 std::map<std::string, std::string> texts = {}) {
  return {.path = path, .content = {.tensors = std::move(tensors), .texts = std::move(texts)}};
}

std::string problem(NamedModel first, NamedModel other) {
  const auto matched = match(first, other);
  return matched ? "" : matched.error().message();
}

TEST(Match, NamesLayerAndBothShapes) {
  const NamedModel first = model("a", {tensor("fc", "weight", {2, 3}), tensor("fc", "bias", {2})});
  NamedModel turned = model("b", {tensor("fc", "bias", {2}), tensor("fc", "weight", {2, 3})});
  ASSERT_TRUE(match(first, turned));
  EXPECT_EQ(turned.content.tensors[0].leaf, "weight");
  EXPECT_THAT(
      problem(first, model("b", {tensor("fc", "weight", {2, 4}), tensor("fc", "bias", {2})})),
      AllOf(HasSubstr("b: fc.weight"), HasSubstr("(2, 4)"), HasSubstr("(2, 3)")));
  EXPECT_THAT(problem(first, model("b", {tensor("fc", "weight", {2, 3})})),
              AllOf(HasSubstr("no fc.bias"), HasSubstr("(2,)")));
  EXPECT_THAT(problem(first, model("b", {tensor("fc", "weight", {2, 3}), tensor("fc", "bias", {2}),
                                         tensor("more", "bias", {1})})),
              HasSubstr("more.bias"));
  EXPECT_THAT(problem(first, model("b", {tensor("fc", "weight", {2, 3}, DType::kF64),
                                         tensor("fc", "bias", {2})})),
              AllOf(HasSubstr("float64"), HasSubstr("float32")));
}

TEST(Match, ComparesWhatLayersCompute) {
  const auto config = [](const std::string& inside) {
    return R"({"class_name": "Sequential", "config": {"layers": [{"class_name": "Dense", "config": )" +
           inside + "}]}}";
  };
  const auto with = [&](const std::string& path, const std::string& inside) {
    return model(path, {tensor("dense", "kernel", {2})}, {{"model_config", config(inside)}});
  };
  const NamedModel first =
      with("a", R"({"name": "dense", "activation": "relu", "trainable": true})");
  EXPECT_EQ(problem(first, with("b", R"({"name": "dense_1", "activation": "relu"})")), "");
  EXPECT_THAT(problem(first, with("b", R"({"name": "dense", "activation": "tanh"})")),
              AllOf(HasSubstr("layer dense"), HasSubstr("tanh"), HasSubstr("relu")));
  EXPECT_EQ(problem(first, with("b", "not json")), "");
  EXPECT_THAT(problem(model("a", {tensor("d", "k", {1})}, {{"classes", "[1]"}}),
                      model("b", {tensor("d", "k", {1})}, {{"classes", "[2]"}})),
              HasSubstr("classes"));
}

TEST(PlanTensors, KnowsBatchNormalisationAndCounters) {
  const auto plans = planTensors(
      {tensor("bn", "running_mean", {4}), tensor("bn", "running_var", {4}),
       tensor("bn", "num_batches_tracked", {}, DType::kI64), tensor("bn", "weight", {4}),
       tensor("lonely", "running_var", {4}), tensor("table", "index", {4}, DType::kI64),
       tensor("dropout", "seed_generator_state", {2}, DType::kU32)});
  EXPECT_EQ(plans[0].treatment, Treatment::kCombine);
  EXPECT_EQ(plans[1].treatment, Treatment::kVariance);
  EXPECT_EQ(plans[1].mean, 0u);
  EXPECT_EQ(plans[2].treatment, Treatment::kCounter);
  EXPECT_EQ(plans[3].treatment, Treatment::kCombine);
  EXPECT_EQ(plans[4].treatment, Treatment::kCombine);
  EXPECT_EQ(plans[5].treatment, Treatment::kEqual);
  EXPECT_EQ(plans[6].treatment, Treatment::kState);
}

}  // namespace
}  // namespace dure::average
