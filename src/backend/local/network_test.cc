#include "backend/local/network.h"

#include <gtest/gtest.h>

namespace dure::local {
namespace {

TEST(Network, AnUnknownNameIsNotFoundAndNamed) {
  const auto opened = openNetwork("dure-no-such-network");
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code(), Code::kNotFound);
  EXPECT_EQ(opened.error().message(), "network dure-no-such-network: No such file or directory");
  const auto address = networkAddress("dure-no-such-network");
  ASSERT_FALSE(address);
  EXPECT_EQ(address.error().message(), opened.error().message());
}

TEST(Network, APathIsNoName) {
  for (const auto* name : {"../../proc/self/ns/net", "a/b", "/run/netns/a", ""}) {
    const auto address = networkAddress(name);
    ASSERT_FALSE(address) << name;
    EXPECT_EQ(address.error().code(), Code::kInvalid) << name;
  }
}

}  // namespace
}  // namespace dure::local
