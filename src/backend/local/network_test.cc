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

TEST(Network, WhatIsNoNetworkCannotBeEntered) {
  // A file that is there, but is no namespace.
  const auto address = networkAddress("../../proc/self/status");
  ASSERT_FALSE(address);
  EXPECT_NE(address.error().message().find("enter network"), std::string::npos)
      << address.error().message();
}

}  // namespace
}  // namespace dure::local
