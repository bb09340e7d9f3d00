#include "base/result.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <memory>

namespace dure {
namespace {

Result<int> half(int number) {
  if (number % 2 != 0) return Error(Code::kInvalid, "it is odd");
  return number / 2;
}

TEST(Result, HoldsTheValueOrTheReason) {
  const auto good = half(4);
  ASSERT_TRUE(good);
  EXPECT_EQ(*good, 2);
  const auto bad = half(3);
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().code(), Code::kInvalid);
  EXPECT_EQ(bad.error().message(), "it is odd");
}

TEST(Result, AskingForWhatIsNotThereThrows) {
  EXPECT_THROW(static_cast<void>(*half(3)), std::bad_variant_access);
  EXPECT_THROW(static_cast<void>(half(4).error()), std::bad_variant_access);
  EXPECT_THROW(static_cast<void>(Status().error()), std::bad_variant_access);
}

TEST(Result, AValueThatCannotBeCopiedIsMovedOut) {
  Result<std::unique_ptr<int>> result(std::make_unique<int>(7));
  const std::unique_ptr<int> owned = *std::move(result);
  EXPECT_EQ(*owned, 7);
}

TEST(Status, IsAlrightUntilAnErrorIsPutIn) {
  EXPECT_TRUE(Status());
  const Status failed = Error(Code::kIo, "no");
  EXPECT_FALSE(failed);
  EXPECT_EQ(failed.error().message(), "no");
}

TEST(Error, EachCallerAddsWhatItWasDoingInFront) {
  const Error error =
      Error(Code::kNotFound, "No such file").during("read job.yaml").during("start");
  EXPECT_EQ(error.message(), "start: read job.yaml: No such file");
  EXPECT_EQ(error.code(), Code::kNotFound);
}

TEST(Error, TheSystemsWordsComeWithTheKindOfFailure) {
  const auto codeOf = [](int number) {
    errno = number;
    return systemError("x").code();
  };
  EXPECT_EQ(codeOf(ENOENT), Code::kNotFound);
  EXPECT_EQ(codeOf(EEXIST), Code::kExists);
  EXPECT_EQ(codeOf(EACCES), Code::kDenied);
  EXPECT_EQ(codeOf(EPERM), Code::kDenied);
  EXPECT_EQ(codeOf(ENOSPC), Code::kIo);
  errno = ENOENT;
  EXPECT_EQ(systemError("job.yaml").message(), "job.yaml: No such file or directory");
}

}  // namespace
}  // namespace dure
