#include "average/facts.h"

#include <gmock/gmock.h>

namespace dure::average {
namespace {

using Texts = std::map<std::string, std::string>;

format::TextChanges factsOf(const std::vector<Texts>& texts) {
  std::vector<NamedModel> models(texts.size());
  for (std::size_t i = 0; i < texts.size(); ++i) models[i].content.texts = texts[i];
  return averagedFacts(models);
}

TEST(Facts, AreSummedKeptOrDropped) {
  const Texts first{{"samples", "100"}, {"workers", "1"},     {"data", "0.npz"}, {"epochs", "3"},
                    {"sync", "step"},   {"accuracy", "0.75"}, {"loss", "0.1"}};
  Texts second = first;
  second["samples"] = "50";
  second["data"] = "1.npz";
  const format::TextChanges expected{
      {"samples", "150"}, {"workers", "2"}, {"data", std::nullopt},     {"epochs", "3"},
      {"sync", "step"},   {"models", "2"},  {"accuracy", std::nullopt}, {"loss", std::nullopt}};
  EXPECT_EQ(factsOf({first, second}), expected);
}

TEST(Facts, ThatOneModelDoesNotSayAreNotTheAverages) {
  const auto facts = factsOf({{{"samples", "100"}, {"epochs", "1"}}, {}});
  EXPECT_EQ(facts.at("samples"), std::nullopt);
  EXPECT_EQ(facts.at("epochs"), std::nullopt);
  EXPECT_EQ(factsOf({{{"samples", "100"}}, {{"samples", "many"}}}).at("samples"), std::nullopt);
}

TEST(Facts, CountTheModelsOfAnAverage) {
  EXPECT_EQ(factsOf({{{"models", "5"}}, {}}).at("models"), "6");
}

TEST(Facts, OfOneModelStay) { EXPECT_TRUE(factsOf({{{"accuracy", "0.5"}}}).empty()); }

}  // namespace
}  // namespace dure::average
