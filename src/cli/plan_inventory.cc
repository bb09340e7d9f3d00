#include "cli/plan_inventory.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <fstream>

#include <fmt/core.h>

#include "base/files.h"
#include "base/text.h"
#include "plan/kubernetes_objects.h"
#include "spec/scalar.h"

namespace dure::cli {
namespace {

constexpr std::size_t kMaxInventorySize = std::size_t{1} << 30;
constexpr std::int64_t kMaxFree = 1'000'000;

std::string hostName() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) return "localhost";
  return name.data();
}

// Those that this process may run on.
std::int64_t countProcessors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return CPU_COUNT(&set);
  return std::max<std::int64_t>(1, sysconf(_SC_NPROCESSORS_ONLN));
}

std::int64_t availableMemory() {
  std::ifstream info("/proc/meminfo");
  std::string name, unit;
  std::int64_t kibibytes = 0;
  while (info >> name >> kibibytes) {
    if (name == "MemAvailable:") return kibibytes * 1024;
    std::getline(info, unit);
  }
  return 0;
}

std::int64_t countGpus() {
  const std::vector<std::string> devices = listDirectory("/dev");
  return std::count_if(devices.begin(), devices.end(), [](const std::string& name) {
    return name.size() > 6 && name.starts_with("nvidia") &&
           std::all_of(name.begin() + 6, name.end(),
                       [](unsigned char c) { return std::isdigit(c) != 0; });
  });
}

}  // namespace

Result<plan::Inventory> inventoryOfFree(const std::string& list, const spec::NodeChoice& names) {
  plan::Inventory inventory;
  for (const std::string& word : split(list, ',')) {
    const auto gpus = spec::readInteger(word);
    if (!gpus || *gpus < 0 || *gpus > kMaxFree) {
      return Error(Code::kInvalid,
                   fmt::format("--free: must be the free GPUs of each node, such as 5,3,2; got "
                               "\"{}\"",
                               list));
    }
    plan::Node node{.name = fmt::format("node-{}", inventory.nodes.size() + 1)};
    node.free = {
        .millicores = plan::kUnlimited, .memory = plan::kUnlimited, .pods = plan::kUnlimited};
    node.free.add(names.gpu, *gpus);
    node.capacity = node.free;
    inventory.nodes.push_back(std::move(node));
  }
  return inventory;
}

Result<plan::Inventory> inventoryOfFile(const std::string& path, const spec::NodeChoice& names) {
  const auto text = readFile(path == "-" ? "/dev/stdin" : path, kMaxInventorySize);
  if (!text) {
    // Whatever the system says of it, it is the call that names a file of no use.
    return Error(Code::kInvalid, fmt::format("--inventory: {}", text.error().message()));
  }
  auto inventory = plan::parseInventory(*text, names, SystemClock().now());
  if (!inventory) return std::move(inventory).error().during("--inventory: " + path);
  return inventory;
}

plan::Inventory inventoryOfMachine(const spec::NodeChoice& names) {
  plan::Node node{.name = hostName()};
  node.free = {.millicores = countProcessors() * 1000,
               .memory = availableMemory(),
               .pods = plan::kUnlimited};
  node.free.add(names.gpu, countGpus());
  node.capacity = node.free;
  return {.nodes = {std::move(node)}};
}

}  // namespace dure::cli
