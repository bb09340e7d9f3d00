#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

// What the nodes of a cluster have to give. Plain data: whoever reads a cluster fills it in.
namespace dure::plan {

// More than anybody asks for.
inline constexpr std::int64_t kUnlimited = std::numeric_limits<std::int64_t>::max();

// The sum, or what is nearest to it of all numbers of the type.
std::int64_t addUp(std::int64_t a, std::int64_t b);

// A resource that is counted and has a name of its own, such as "nvidia.com/gpu".
struct NamedAmount {
  std::string resource;
  std::int64_t count = 0;
};

struct Amounts {
  std::int64_t millicores = 0;
  std::int64_t memory = 0;  // bytes
  std::int64_t pods = 0;
  std::vector<NamedAmount> others;

  // 0 if it is not among the others.
  std::int64_t count(const std::string& resource) const;
  void add(const std::string& resource, std::int64_t count);
};

struct Taint {
  std::string key;
  std::string value;
  std::string effect;  // "NoSchedule", "PreferNoSchedule", "NoExecute"
};

// What a job has of a node, as a message may tell it.
struct Holding {
  std::string job;
  std::string resource;
  std::int64_t count = 0;
};

struct Node {
  std::string name;
  std::string zone;  // empty: not known; all such nodes are in one zone
  std::string rack;  // within the zone, so that two zones may use one name
  bool ready = true;
  bool schedulable = true;
  Amounts capacity;
  Amounts free;  // capacity, less what unfinished pods ask for
  std::map<std::string, std::string> labels;
  std::vector<Taint> taints;
  std::vector<Holding> held;
};

struct Inventory {
  std::vector<Node> nodes;  // in any order, with different names
};

// "node-2" comes before "node-10": numbers in names count as numbers. A total order.
bool nameBefore(const std::string& a, const std::string& b);

}  // namespace dure::plan
