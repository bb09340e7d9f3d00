#include "backend/local/machine.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <string_view>

#include "base/files.h"
#include "base/text.h"

namespace dure::local {
namespace {

constexpr std::string_view kDevice = "nvidia";

std::string hostName() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) return "localhost";
  return name.data();
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

bool isGpu(const std::string& device) {
  return device.size() > kDevice.size() && device.starts_with(kDevice) &&
         std::all_of(device.begin() + kDevice.size(), device.end(),
                     [](unsigned char c) { return std::isdigit(c) != 0; });
}

// As CUDA reads it: indices or identifiers up to the first that is none.
std::vector<std::string> visibleGpus(const std::string& list) {
  std::vector<std::string> gpus;
  for (const std::string& word : split(list, ',')) {
    std::string gpu = word;
    std::erase_if(gpu, [](unsigned char c) { return std::isspace(c) != 0; });
    if (gpu.empty() || gpu.front() == '-') break;
    gpus.push_back(gpu);
  }
  return gpus;
}

}  // namespace

int coreCount() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (sched_getaffinity(0, sizeof cores, &cores) == 0) return CPU_COUNT(&cores);
  return static_cast<int>(std::max<long>(1, sysconf(_SC_NPROCESSORS_ONLN)));
}

std::optional<std::vector<std::string>> machineGpus() {
  if (const char* visible = std::getenv("CUDA_VISIBLE_DEVICES"); visible != nullptr) {
    return visibleGpus(visible);
  }
  const std::vector<std::string> devices = listDirectory("/dev");
  const auto count = std::count_if(devices.begin(), devices.end(), isGpu);
  if (count == 0) return std::nullopt;
  std::vector<std::string> gpus;
  for (int i = 0; i < count; ++i) gpus.push_back(std::to_string(i));
  return gpus;
}

plan::Inventory machineInventory(const spec::NodeChoice& names) {
  plan::Node node{.name = hostName()};
  node.free = {.millicores = std::int64_t{coreCount()} * 1000,
               .memory = availableMemory(),
               .pods = plan::kUnlimited};
  const auto gpus = machineGpus();
  node.free.add(names.gpu, gpus ? static_cast<std::int64_t>(gpus->size()) : 0);
  node.capacity = node.free;
  return {.nodes = {std::move(node)}};
}

}  // namespace dure::local
