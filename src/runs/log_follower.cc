#include "runs/log_follower.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <vector>

#include "base/files.h"

namespace dure::runs {
namespace {

std::vector<int> generations(const RunPaths& paths) {
  std::vector<int> numbers;
  for (const std::string& name : listDirectory(paths.directory + "/logs")) {
    int number = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
    if (error == std::errc() && end == name.data() + name.size()) numbers.push_back(number);
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

std::vector<int> ranks(const RunPaths& paths, int generation) {
  std::vector<int> numbers;
  for (const std::string& name : listDirectory(paths.logs(generation))) {
    int number = 0;
    if (name.rfind("rank-", 0) != 0) continue;
    const auto parsed = std::from_chars(name.data() + 5, name.data() + name.size(), number);
    if (parsed.ec == std::errc()) numbers.push_back(number);
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

}  // namespace

std::optional<int> LogFollower::newestGeneration(const RunPaths& paths) {
  const std::vector<int> numbers = generations(paths);
  if (numbers.empty()) return std::nullopt;
  return numbers.back();
}

void LogFollower::poll(bool last, const Lines& lines) {
  for (const int generation : generations(paths_)) {
    if (options_.generation && generation != *options_.generation) continue;
    for (const int rank : ranks(paths_, generation)) {
      if (options_.rank && rank != *options_.rank) continue;
      pollFile(generation, rank, last, lines);
    }
  }
}

void LogFollower::pollFile(int generation, int rank, bool last, const Lines& lines) {
  File& file = files_[{generation, rank}];
  // Opened anew each time: there may be more logs than descriptors.
  const Fd fd(open(paths_.log(generation, rank).c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return;
  char block[65536];
  ssize_t got = 0;
  while ((got = pread(fd.get(), block, sizeof block, file.offset)) > 0) {
    file.offset += got;
    file.rest.append(block, static_cast<std::size_t>(got));
    const std::size_t end = file.rest.rfind('\n');
    if (end == std::string::npos) continue;
    lines(generation, rank, std::string_view(file.rest).substr(0, end + 1));
    file.rest.erase(0, end + 1);
  }
  if (last && !file.rest.empty()) lines(generation, rank, std::exchange(file.rest, "") + "\n");
}

}  // namespace dure::runs
