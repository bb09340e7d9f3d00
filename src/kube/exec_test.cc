#include "kube/exec.h"

#include <gtest/gtest.h>

#include "kube/test_exec.h"
#include "kube/test_server.h"

namespace dure::kube {
namespace {

TEST(ExecTest, WhatComesAfterTheEndWasToldIsNotLost) {
  TestServer server([](const auto& asked, const auto& send) {
    send(execHandshake(asked.headers));
    send(execMessage(1, "out"));
    send(execMessage(3, R"({"status": "Success"})"));
    send(execMessage(2, "err"));
    return false;
  });
  KubeClient client({.context = "test", .server = server.url(), .token = "t"});
  std::string out, err;
  const auto code = exec(client, {.name_space = "a", .pod = "b", .container = "c"},
                         [&](ExecStream stream, std::string_view bytes) {
                           (stream == ExecStream::kOut ? out : err) += bytes;
                         });
  ASSERT_TRUE(code) << code.error().message();
  EXPECT_EQ(*code, 0);
  EXPECT_EQ(out, "out");
  EXPECT_EQ(err, "err");
}

TEST(ExecTest, AConnectionThatEndsBeforeTheCommandIsAnError) {
  TestServer server([](const auto& asked, const auto& send) {
    send(execHandshake(asked.headers));
    send(execMessage(1, "out"));
    return false;
  });
  KubeClient client({.context = "test", .server = server.url(), .token = "t"});
  const auto code = exec(client, {.name_space = "a", .pod = "b", .container = "c"},
                         [](ExecStream, std::string_view) {});
  ASSERT_FALSE(code);
  EXPECT_EQ(code.error().code(), Code::kUnavailable);
}

}  // namespace
}  // namespace dure::kube
