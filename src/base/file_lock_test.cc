#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "base/files.h"

namespace dure {
namespace {

using testing::HasSubstr;

// A process that takes the lock, says whether it could, and keeps it until it is killed.
class Holder {
 public:
  explicit Holder(const std::string& path) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) std::abort();
    pid_ = fork();
    if (pid_ == 0) {
      const auto lock = FileLock::acquire(path);
      const char got = lock ? 'y' : 'n';
      if (write(ends[1], &got, 1) != 1) _exit(1);
      while (true) pause();
    }
    close(ends[1]);
    const Fd in(ends[0]);
    char got = 0;
    holds_ = read(in.get(), &got, 1) == 1 && got == 'y';
  }
  ~Holder() { kill(); }
  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }
  pid_t pid() const { return pid_; }
  bool holds() const { return holds_; }

 private:
  pid_t pid_ = 0;
  bool holds_ = false;
};

class FileLocks : public testing::Test {
 protected:
  ~FileLocks() override { static_cast<void>(removeTree(directory_)); }

 private:
  static std::string make() {
    std::string name = testing::TempDir() + "dure-lock-XXXXXX";
    return mkdtemp(name.data());
  }
  const std::string directory_ = make();

 protected:
  const std::string path_ = directory_ + "/lock";
};

TEST_F(FileLocks, ASecondProcessIsToldWhoHoldsIt) {
  const Holder first(path_);
  ASSERT_TRUE(first.holds());
  EXPECT_EQ(FileLock::holder(path_), first.pid());
  const auto second = FileLock::acquire(path_);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code(), Code::kExists);
  EXPECT_THAT(second.error().message(), HasSubstr(std::to_string(first.pid())));
  EXPECT_EQ(FileLock::holder(path_), first.pid()) << "asking does not take it away";
}

TEST_F(FileLocks, AKilledProcessHoldsNothing) {
  Holder holder(path_);
  ASSERT_TRUE(holder.holds());
  holder.kill();
  EXPECT_FALSE(FileLock::holder(path_));
  EXPECT_TRUE(FileLock::acquire(path_));
}

TEST_F(FileLocks, OneThatWeHoldKeepsOthersOut) {
  auto lock = FileLock::acquire(path_);
  ASSERT_TRUE(lock);
  EXPECT_FALSE(Holder(path_).holds());
  {
    const FileLock moved = *std::move(lock);
    EXPECT_FALSE(Holder(path_).holds());
  }
  EXPECT_TRUE(Holder(path_).holds()) << "it is free when the object is gone";
}

TEST_F(FileLocks, AChildOfTheHolderDoesNotHoldIt) {
  auto lock = FileLock::acquire(path_);
  ASSERT_TRUE(lock);
  // Keeps its copy of the descriptor open.
  const Holder child(path_ + ".other");
  { const FileLock gone = *std::move(lock); }
  EXPECT_FALSE(FileLock::holder(path_));
}

TEST_F(FileLocks, NobodyHoldsWhatIsNotThere) {
  EXPECT_FALSE(FileLock::holder(path_));
  EXPECT_FALSE(fileExists(path_)) << "asking does not create it";
  EXPECT_EQ(FileLock::acquire(path_ + "/below").error().code(), Code::kNotFound);
}

}  // namespace
}  // namespace dure
