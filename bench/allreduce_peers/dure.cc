// One rank of bench/allreduce: all-reduces through joinGroup. Prints per size how long one took, on
// average over each batch. The numbers are fresh for every all-reduce, as gradients are.
//   dure BATCHES BYTES:COUNT…   with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "group/group.h"

// Small whole numbers, so that sums of them are exact.
static float number(std::size_t place, int turn, int rank) {
  return static_cast<float>((place & 1023) + static_cast<std::size_t>(turn * (rank + 1)));
}

int main(int argc, char** argv) {
  const auto setting = [](const char* name) { return std::atoi(std::getenv(name)); };
  auto joined = dure::group::joinGroup({.address = std::getenv("MASTER_ADDR"),
                                        .port = static_cast<std::uint16_t>(setting("MASTER_PORT")),
                                        .rank = setting("RANK"),
                                        .size = setting("WORLD_SIZE"),
                                        .key = "bench",
                                        .timeout = dure::Duration(60'000)});
  if (!joined) {
    std::fprintf(stderr, "%s\n", joined.error().message().c_str());
    return 1;
  }
  dure::group::Group& group = **joined;
  const int batches = std::atoi(argv[1]);
  for (int i = 2; i < argc; ++i) {
    const std::string word = argv[i];
    const auto bytes = static_cast<std::size_t>(std::atoll(word.c_str()));
    const int count = std::atoi(word.c_str() + word.find(':') + 1);
    std::vector<float> data(bytes / sizeof(float));
    const auto registered = group.registerBuffer(data);
    for (int batch = -1; batch < batches; ++batch) {  // the first one is to warm up
      std::chrono::duration<double> took{0};
      for (int turn = 0; turn < count; ++turn) {
        for (std::size_t at = 0; at < data.size(); ++at) data[at] = number(at, turn, group.rank());
        if (!group.barrier()) return 1;
        const auto began = std::chrono::steady_clock::now();
        if (!group.allReduce(data)) return 1;
        took += std::chrono::steady_clock::now() - began;
      }
      for (std::size_t at = 0; at < data.size(); ++at) {
        float expected = 0;
        for (int rank = 0; rank < group.size(); ++rank) expected += number(at, count - 1, rank);
        if (data[at] == expected) continue;
        std::fprintf(stderr, "a wrong sum of %zu bytes\n", bytes);
        return 1;
      }
      if (batch >= 0 && group.rank() == 0) std::printf("%zu %.9f\n", bytes, took.count() / count);
    }
  }
  return 0;
}
