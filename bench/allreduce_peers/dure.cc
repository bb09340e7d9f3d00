// One rank of bench/allreduce: sums through joinGroup. Prints per size what a batch of sums took.
//   dure BATCHES BYTES:COUNT…   with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "group/group.h"

int main(int argc, char** argv) {
  const auto number = [](const char* name) { return std::atoi(std::getenv(name)); };
  auto group = dure::joinGroup({.address = std::getenv("MASTER_ADDR"),
                                .port = static_cast<std::uint16_t>(number("MASTER_PORT")),
                                .rank = number("RANK"),
                                .size = number("WORLD_SIZE"),
                                .key = "bench",
                                .timeout = dure::Duration(60'000)});
  if (!group) {
    std::fprintf(stderr, "%s\n", group.error().message().c_str());
    return 1;
  }
  const int batches = std::atoi(argv[1]);
  for (int i = 2; i < argc; ++i) {
    const std::string word = argv[i];
    const auto bytes = static_cast<std::size_t>(std::atoll(word.c_str()));
    const int count = std::atoi(word.c_str() + word.find(':') + 1);
    std::vector<float> data(bytes / sizeof(float), 0.0F);
    for (int batch = -1; batch < batches; ++batch) {  // the first one is to warm up
      const auto began = std::chrono::steady_clock::now();
      for (int turn = 0; turn < count; ++turn) {
        if (!(*group)->sum(data)) return 1;
      }
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
      if (batch >= 0 && (*group)->rank() == 0)
        std::printf("%zu %.9f\n", bytes, took.count() / count);
    }
  }
  return 0;
}
