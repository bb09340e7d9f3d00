// What bench/allreduce could at best find: processes whose buffers are shared from the start, that
// synchronise by spinning, check nothing, and reduce in one pass. Prints per size how long an
// all-reduce took, on average over each batch. The numbers are fresh for each, as gradients are.
//   bare RANKS BATCHES BYTES:COUNT…

#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace {

constexpr int kMostRanks = 4;
constexpr std::size_t kMostBytes = 64u << 20u;

struct alignas(128) Counter {
  std::atomic<unsigned> value;
};

int ranks = 0;
int rank = 0;
Counter* counters = nullptr;
float* numbers[kMostRanks];

void* shared(std::size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) std::exit(1);
  return memory;
}

void barrier() {
  static unsigned turn = 0;
  counters[rank].value.store(++turn, std::memory_order_release);
  static const bool crowded = ranks > sysconf(_SC_NPROCESSORS_ONLN);
  for (int other = 0; other < ranks; ++other) {
    while (counters[other].value.load(std::memory_order_acquire) < turn) {
      if (crowded) sched_yield();
    }
  }
}

template <int kRanks>
[[gnu::target("avx2"), gnu::optimize("O3")]] void sumPart(std::size_t begin, std::size_t end) {
  float* of[kRanks];
  for (int other = 0; other < kRanks; ++other) of[other] = numbers[other];
  constexpr std::size_t kStride = 128;
  for (std::size_t at = begin; at < end; at += kStride) {
    for (std::size_t line = 2 * kStride; line < 3 * kStride; line += 16) {
      for (int other = 0; other < kRanks; ++other) __builtin_prefetch(of[other] + at + line);
    }
    const std::size_t stop = std::min(at + kStride, end);
#pragma GCC ivdep
    for (std::size_t i = at; i < stop; ++i) {
      float sum = of[0][i];
      for (int other = 1; other < kRanks; ++other) sum += of[other][i];
      for (int other = 0; other < kRanks; ++other) of[other][i] = sum;
    }
  }
}

// Small whole numbers, so that sums of them are exact.
float number(std::size_t place, int turn, int of_rank) {
  return static_cast<float>((place & 1023) + static_cast<std::size_t>(turn * (of_rank + 1)));
}

void measure(std::size_t bytes, int count, int batches) {
  const std::size_t all = bytes / sizeof(float);
  const std::size_t each = all / static_cast<std::size_t>(ranks);
  const std::size_t begin = each * static_cast<std::size_t>(rank);
  const std::size_t end = rank + 1 == ranks ? all : begin + each;
  for (int batch = -1; batch < batches; ++batch) {  // the first one is to warm up
    std::chrono::duration<double> took{0};
    for (int turn = 0; turn < count; ++turn) {
      for (std::size_t i = 0; i < all; ++i) numbers[rank][i] = number(i, turn, rank);
      barrier();
      const auto began = std::chrono::steady_clock::now();
      barrier();
      ranks == 2 ? sumPart<2>(begin, end) : sumPart<4>(begin, end);
      barrier();
      took += std::chrono::steady_clock::now() - began;
    }
    for (std::size_t i = 0; i < all; ++i) {
      float expected = 0;
      for (int other = 0; other < ranks; ++other) expected += number(i, count - 1, other);
      if (numbers[rank][i] != expected) std::exit(1);
    }
    if (batch >= 0 && rank == 0) std::printf("%zu %.9f\n", bytes, took.count() / count);
  }
}

}  // namespace

int main(int argc, char** argv) {
  ranks = std::atoi(argv[1]);
  if (ranks != 2 && ranks != kMostRanks) return 2;
  counters = static_cast<Counter*>(shared(kMostRanks * sizeof(Counter)));
  for (int i = 0; i < ranks; ++i) numbers[i] = static_cast<float*>(shared(kMostBytes));
  while (rank + 1 < ranks && fork() == 0) ++rank;  // each is the child of the one before
  if (rank > 0) prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (int i = 3; i < argc; ++i) {
    const std::string word = argv[i];
    measure(static_cast<std::size_t>(std::atoll(word.c_str())),
            std::atoi(word.c_str() + word.find(':') + 1), std::atoi(argv[2]));
  }
  std::fflush(stdout);
  int status = 0;
  if (rank + 1 < ranks && (wait(&status) < 0 || status != 0)) return 1;
  return 0;
}
