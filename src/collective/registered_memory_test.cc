#include "collective/registered_memory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>

#include "base/sanitizers.h"
#include "collective/test_members.h"

namespace dure::collective {
namespace {

constexpr std::size_t kCount = 100'003;  // numbers: some pages, and parts of pages at both ends

std::span<std::byte> bytesOf(std::vector<float>& numbers) {
  return std::as_writable_bytes(std::span(numbers));
}

std::vector<float> someNumbers() {
  std::vector<float> numbers(kCount);
  std::iota(numbers.begin(), numbers.end(), 0.0F);
  return numbers;
}

std::size_t openFiles() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

std::size_t mappings() {
  std::ifstream maps("/proc/self/maps");
  return static_cast<std::size_t>(std::count(std::istreambuf_iterator<char>(maps), {}, '\n'));
}

// Of the file of this process.
std::int64_t memoryInUse() {
  struct stat info {};
  EXPECT_EQ(fstat(registeredFile().descriptor, &info), 0);
  return info.st_blocks * 512;
}

TEST(RegisteredMemory, AddressesAndNumbersStay) {
  std::vector<float> numbers = someNumbers();
  float* const alias = numbers.data() + 50'000;
  {
    auto registered = RegisteredMemory::registerRange(bytesOf(numbers));
    ASSERT_TRUE(registered) << registered.error().message();
    EXPECT_EQ(numbers, someNumbers());
    *alias = -1;
    EXPECT_EQ(numbers[50'000], -1);
    EXPECT_GT(memoryInUse(), 0);
  }
  EXPECT_EQ(*alias, -1);
  *alias = 50'000;
  EXPECT_EQ(numbers, someNumbers());
  EXPECT_EQ(memoryInUse(), 0);
}

TEST(RegisteredMemory, IsFoundWhereItIs) {
  std::vector<float> numbers = someNumbers();
  const auto bytes = bytesOf(numbers);
  EXPECT_FALSE(findRegistered(bytes.subspan(4096, 10'000)));
  auto registered = RegisteredMemory::registerRange(bytes);
  ASSERT_TRUE(registered);
  const auto whole = findRegistered((*registered)->pages());
  ASSERT_TRUE(whole);
  EXPECT_EQ(whole->at, whole->begin);
  EXPECT_EQ(whole->bytes, (*registered)->pages().size());
  const auto part = findRegistered((*registered)->pages().subspan(100, 1000));
  ASSERT_TRUE(part);
  EXPECT_EQ(part->begin, whole->begin);
  EXPECT_EQ(part->at, whole->begin + 100);
  EXPECT_FALSE(findRegistered(bytes));  // its ends are in no whole page
  registered->reset();
  EXPECT_FALSE(findRegistered(bytes.subspan(4096, 10'000)));
  // Registered again, it is at another offset.
  const auto again = RegisteredMemory::registerRange(bytes);
  ASSERT_TRUE(again);
  EXPECT_GE(findRegistered((*again)->pages())->begin, whole->begin + whole->bytes);
}

TEST(RegisteredMemory, IsOrdinaryAndLargeAndRegisteredOnce) {
  std::vector<float> few(1000);
  EXPECT_EQ(RegisteredMemory::registerRange(bytesOf(few)).error().code(), Code::kInvalid);
  EXPECT_EQ(RegisteredMemory::registerRange({}).error().code(), Code::kInvalid);

  std::vector<float> numbers = someNumbers();
  const auto registered = RegisteredMemory::registerRange(bytesOf(numbers));
  ASSERT_TRUE(registered);
  EXPECT_EQ(RegisteredMemory::registerRange(bytesOf(numbers)).error().code(), Code::kExists);
  EXPECT_EQ(RegisteredMemory::registerRange(bytesOf(numbers).subspan(50'000)).error().code(),
            Code::kExists);

  constexpr std::size_t kBytes = 1u << 20u;
  for (const int how : {MAP_SHARED | MAP_ANONYMOUS, MAP_PRIVATE | MAP_ANONYMOUS}) {
    const int access = how & MAP_SHARED ? PROT_READ | PROT_WRITE : PROT_READ;
    void* begin = mmap(nullptr, kBytes, access, how, -1, 0);
    ASSERT_NE(begin, MAP_FAILED);
    const std::span<std::byte> range(static_cast<std::byte*>(begin), kBytes);
    EXPECT_EQ(RegisteredMemory::registerRange(range).error().code(), Code::kInvalid);
    munmap(begin, kBytes);
    EXPECT_EQ(RegisteredMemory::registerRange(range).error().code(), Code::kInvalid);
  }
}

TEST(RegisteredMemory, ThousandsLeaveNothingBehind) {
  std::vector<float> numbers = someNumbers();
  ASSERT_TRUE(RegisteredMemory::registerRange(bytesOf(numbers)));  // the file is there from now on
  const std::size_t files = openFiles();
  const std::size_t mapped = mappings();
  for (int turn = 0; turn < 3000; ++turn) {
    std::vector<float> other(30'000 + static_cast<std::size_t>(turn) * 7, 1.0F);
    auto registered = RegisteredMemory::registerRange(bytesOf(other));
    ASSERT_TRUE(registered) << registered.error().message();
    if (turn % 2 == 0) (*registered)->discardContents();
  }
  EXPECT_EQ(openFiles(), files);
  EXPECT_LE(mappings(), mapped + 100);  // what the allocator does of itself
  EXPECT_EQ(memoryInUse(), 0);
}

TEST(RegisteredMemory, AForkedChildHasItsOwn) {
  std::vector<float> numbers = someNumbers();
  const auto registered = RegisteredMemory::registerRange(bytesOf(numbers));
  ASSERT_TRUE(registered);
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  const pid_t child = forkProcess([&] {
    char byte = 0;
    if (read(pipe_ends[0], &byte, 1) != 1) return 1;
    // What was there when it was made, not what the parent has written since.
    if (numbers != someNumbers()) return 2;
    std::fill(numbers.begin(), numbers.end(), -2.0F);
    // It can register memory itself, in a file of its own.
    if (registeredFile().descriptor >= 0 || findRegistered((*registered)->pages())) return 3;
    const auto own = RegisteredMemory::registerRange(bytesOf(numbers));
    return own && numbers.back() == -2.0F ? 0 : 4;
  });
  std::fill(numbers.begin(), numbers.end(), -1.0F);
  ASSERT_EQ(write(pipe_ends[1], "x", 1), 1);
  EXPECT_EQ(describeExit(waitForProcess(child)), "exited with 0");
  EXPECT_EQ(numbers, std::vector<float>(kCount, -1.0F));
  EXPECT_TRUE(findRegistered((*registered)->pages()));
  close(pipe_ends[0]);
  close(pipe_ends[1]);
}

TEST(RegisteredMemory, WhatIsUnregisteredIsNobodyElses) {
  std::vector<float> numbers = someNumbers();
  auto registered = RegisteredMemory::registerRange(bytesOf(numbers));
  ASSERT_TRUE(registered);
  const auto pages = (*registered)->pages();
  const auto region = findRegistered(pages);
  const auto file = openRegisteredFile(getpid(), registeredFile());
  ASSERT_TRUE(file) << file.error().message();
  void* seen = mmap(nullptr, region->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file->get(),
                    static_cast<off_t>(region->begin));
  ASSERT_NE(seen, MAP_FAILED);
  EXPECT_EQ(std::memcmp(seen, pages.data(), pages.size()), 0);
  unregister(pages.subspan(4096, 4096));
  std::memset(seen, 0, region->bytes);  // as a peer that has not noticed
  EXPECT_EQ(numbers, someNumbers());
  EXPECT_FALSE(findRegistered(pages));
  munmap(seen, region->bytes);
  registered->reset();
  EXPECT_EQ(numbers, someNumbers());
}

TEST(RegisteredMemory, OnlyTheFileOfTheOtherIsOpened) {
  std::vector<float> numbers = someNumbers();
  const auto registered = RegisteredMemory::registerRange(bytesOf(numbers));
  ASSERT_TRUE(registered);
  RegisteredFile file = registeredFile();
  EXPECT_TRUE(openRegisteredFile(getpid(), file));
  ++file.inode;
  EXPECT_EQ(openRegisteredFile(getpid(), file).error().code(), Code::kInvalid);
  const Fd other(open("/dev/null", O_RDWR | O_CLOEXEC));
  EXPECT_FALSE(openRegisteredFile(getpid(), {other.get(), 1}));
  EXPECT_FALSE(openRegisteredFile(getpid(), {-1, 1}));
}

TEST(RegisteredMemory, WhereFilesAreLimitedNothingIsRegistered) {
  const pid_t child = forkProcess([] {
    const rlimit limit{1u << 20u, 1u << 20u};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return 1;
    std::vector<float> numbers = someNumbers();
    const auto registered = RegisteredMemory::registerRange(bytesOf(numbers));
    return !registered && registered.error().code() == Code::kDenied && numbers == someNumbers()
               ? 0
               : 2;
  });
  EXPECT_EQ(describeExit(waitForProcess(child)), "exited with 0");
}

TEST(RegisteredMemory, WhereThereIsNoRoomNothingIsRegistered) {
#if DURE_ADDRESS_SANITIZER || DURE_THREAD_SANITIZER
  GTEST_SKIP() << "a sanitizer takes more room than can be limited";
#endif
  const pid_t child = forkProcess([] {
    std::vector<float> numbers(16u << 20u, 1.0F);
    std::ifstream memory("/proc/self/statm");
    std::size_t pages = 0;
    memory >> pages;
    const rlimit limit{pages * 4096 + (8u << 20u), RLIM_INFINITY};
    if (setrlimit(RLIMIT_AS, &limit) != 0) return 1;
    const auto registered = RegisteredMemory::registerRange(bytesOf(numbers));
    if (registered || registered.error().code() != Code::kIo) return 2;
    if (memoryInUse() != 0) return 3;
    return numbers == std::vector<float>() || numbers.front() + numbers.back() == 2 ? 0 : 4;
  });
  EXPECT_EQ(describeExit(waitForProcess(child)), "exited with 0");
}

}  // namespace
}  // namespace dure::collective
