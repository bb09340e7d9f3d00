#include "group/join.h"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <map>
#include <string_view>
#include <utility>

#include <fmt/core.h>

#include "base/process.h"
#include "base/text.h"
#include "group/gloo_transport.h"
#include "group/host_identity.h"
#include "group/nccl_transport.h"

namespace dure::group {
namespace {

// What a rank tells the others: its host, and the address by which other hosts reach it.
struct Entry {
  std::string host;
  std::string address;
};
// All of them, and a word that this group shares with no other.
struct Table {
  std::string token;
  std::vector<Entry> entries;
};

std::string toText(const std::vector<std::uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }

std::string write(const Entry& entry) { return entry.host + "\t" + entry.address; }

Entry readEntry(const std::string& text) {
  const auto tab = text.find('\t');
  return {text.substr(0, tab), tab == std::string::npos ? "" : text.substr(tab + 1)};
}

std::string waitForKey(c10d::Store& store, const std::string& key,
                       std::chrono::steady_clock::time_point deadline) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
      deadline - std::chrono::steady_clock::now());
  store.wait({key}, std::max(left, std::chrono::milliseconds(1)));
  return toText(store.get(key));
}

// Rank 0 collects the entries and hands out the table, so that everyone asks the store once.
Result<Table> exchangeEntries(const StoreJoin& join, const Entry& mine) {
  const auto deadline = std::chrono::steady_clock::now() + join.timeout;
  int awaited = 0;
  try {
    join.store->set(fmt::format("rank/{}", join.rank), storeBytes(write(mine)));
    if (join.rank == 0) {
      std::string table = randomToken();
      for (awaited = 0; awaited < join.size; ++awaited) {
        const std::string key = fmt::format("rank/{}", awaited);
        table += fmt::format("\n{}", waitForKey(*join.store, key, deadline));
      }
      join.store->set("table", storeBytes(table));
    }
    awaited = 0;
    const auto lines = split(waitForKey(*join.store, "table", deadline), '\n');
    Table table;
    if (!lines.empty()) table.token = lines[0];
    for (std::size_t i = 1; i < lines.size(); ++i) table.entries.push_back(readEntry(lines[i]));
    if (table.entries.size() != static_cast<std::size_t>(join.size)) {
      return Error(Code::kInvalid, fmt::format("rank {} says that the group has {} members, rank 0 "
                                               "says {}",
                                               join.rank, join.size, table.entries.size()));
    }
    return table;
  } catch (const std::exception&) {
    // The store's words tell less: it lost its connection, or nobody set a key in time.
    if (std::chrono::steady_clock::now() < deadline) {
      return Error(Code::kUnavailable, "rank 0 is gone");
    }
    return Error(Code::kUnavailable, fmt::format("timed out after {} waiting for rank {}",
                                                 describeDuration(join.timeout), awaited));
  }
}

// The leader's address for other hosts. A name of rank 0 often means the loopback on rank 0's own
// host: there it is the address that leads to another host.
std::string leaderAddress(const Topology& topology, const Table& table) {
  const auto& mine = table.entries[static_cast<std::size_t>(topology.rank)].address;
  if (!isLoopback(mine)) return mine;
  for (const auto& ranks : topology.hosts) {
    const auto& other = table.entries[static_cast<std::size_t>(ranks[0])].address;
    if (ranks[0] != topology.rank && !isLoopback(other)) return localAddressTowards(other);
  }
  return mine;
}

Duration laterWait(const StoreJoin& join) {
  return join.wait.count() > 0 ? join.wait : join.timeout;
}

// Gloo, unless the environment asks for NCCL.
Result<std::unique_ptr<Transport>> connectLeaders(const StoreJoin& join, const Topology& topology,
                                                  const Table& table) {
  const auto store = c10::make_intrusive<c10d::PrefixStore>("leaders", join.store);
  const int here = topology.hostOf(join.rank);
  const int hosts = static_cast<int>(topology.hosts.size());
  const char* wanted = std::getenv("DURE_TRANSPORT");
  if (wanted && std::string_view(wanted) == "nccl") {
    return connectNccl(store, here, hosts, laterWait(join));
  }
  return connectGloo(store, here, hosts, leaderAddress(topology, table),
                     {.connect = join.timeout, .message = laterWait(join)});
}

}  // namespace

Topology topologyOf(int rank, const std::vector<std::string>& host_of_rank) {
  Topology topology{.rank = rank};
  std::map<std::string, std::size_t> known;
  for (std::size_t i = 0; i < host_of_rank.size(); ++i) {
    const auto [host, is_new] = known.try_emplace(host_of_rank[i], topology.hosts.size());
    if (is_new) topology.hosts.emplace_back();
    topology.hosts[host->second].push_back(static_cast<int>(i));
  }
  return topology;
}

Result<std::unique_ptr<TwoLevelGroup>> joinThroughStore(const StoreJoin& join) {
  if (join.size < 1 || join.rank < 0 || join.rank >= join.size) {
    return Error(Code::kInvalid, fmt::format("a group of {} has no rank {}", join.size, join.rank));
  }
  Table table;
  Topology topology = topologyOf(0, {"alone"});
  if (join.size > 1) {
    Entry mine{join.host, localAddressTowards(join.address)};
    if (mine.host.empty()) {
      auto identity = hostIdentity();
      if (!identity) return std::move(identity).error();
      mine.host = std::move(*identity);
    }
    auto exchanged = exchangeEntries(join, mine);
    if (!exchanged) return std::move(exchanged).error();
    table = std::move(*exchanged);
    std::vector<std::string> host_of_rank;
    for (const Entry& entry : table.entries) host_of_rank.push_back(entry.host);
    topology = topologyOf(join.rank, host_of_rank);
  }
  const auto& ranks = topology.hosts[static_cast<std::size_t>(topology.hostOf(join.rank))];
  auto host = collective::HostGroup::join({.key = fmt::format("{}/{}", table.token, ranks[0]),
                                           .member = topology.memberOf(join.rank),
                                           .ranks = ranks,
                                           .timeout = join.timeout,
                                           .wait = join.wait});
  if (!host) return std::move(host).error();
  std::unique_ptr<Leaders> leaders;
  if (topology.hosts.size() > 1 && ranks[0] == join.rank) {
    auto transport = connectLeaders(join, topology, table);
    if (!transport) {
      (*host)->fail(transport.error());
      return std::move(transport).error();
    }
    leaders = std::make_unique<Leaders>(std::move(*transport), join.compression);
  }
  auto group = std::make_unique<TwoLevelGroup>(std::move(topology), std::move(*host),
                                               std::move(leaders), join.compression);
  // After this nobody needs the store, which may be a part of rank 0.
  if (auto status = group->barrier(); !status) return std::move(status).error();
  return group;
}

}  // namespace dure::group
