#include "protocol/agent_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dure::protocol {
namespace {

AgentOptions sample() {
  return {.coordinator = "127.0.0.1:99",
          .secret = "s",
          .run = "r.1",
          .task = "worker-0",
          .generation = 3,
          .directory = "/d"};
}

TEST(AgentOptions, ComeBackFromTheEnvironment) {
  const auto options = agentOptionsFrom(toEnvironment(sample()));
  ASSERT_TRUE(options);
  EXPECT_EQ(toEnvironment(*options), toEnvironment(sample()));
}

TEST(AgentOptions, NameTheVariableThatIsMissing) {
  for (std::size_t i = 0; i < toEnvironment(sample()).size(); ++i) {
    auto environment = toEnvironment(sample());
    const std::string name = environment[i].substr(0, environment[i].find('='));
    environment.erase(environment.begin() + static_cast<std::ptrdiff_t>(i));
    const auto options = agentOptionsFrom(environment);
    ASSERT_FALSE(options) << name;
    EXPECT_THAT(options.error().message(), testing::HasSubstr(name));
  }
}

TEST(AgentOptions, RefuseAGenerationThatIsNoNumber) {
  auto environment = toEnvironment(sample());
  environment.back() = "DURE_AGENT_GENERATION=3x";
  EXPECT_FALSE(agentOptionsFrom(environment));
}

}  // namespace
}  // namespace dure::protocol
