#include "coordinator/store.h"

#include <utility>

namespace dure::coordinator {
namespace {

// More than any gang writes; a runaway client is refused instead of filling the memory.
constexpr std::size_t kMaxKeys = 1'000'000;

}  // namespace

void RendezvousStore::reset(std::map<std::string, std::string> content) {
  content_ = std::move(content);
  done_.clear();
}

RendezvousStore::Reply RendezvousStore::handle(const std::string& method, const std::string& path,
                                               const std::string& body) {
  const std::size_t slash = path.find('/', 1);
  if (path.empty() || path[0] != '/' || slash == std::string::npos || slash + 1 == path.size()) {
    return {.status = 400, .body = "the path must be /scope/key\n"};
  }
  const std::string key = path.substr(1);
  if (method == "GET") {
    const auto found = content_.find(key);
    if (found == content_.end()) return {.status = 404, .body = ""};
    return {.status = 200, .body = found->second};
  }
  if (method == "PUT") {
    if (content_.size() >= kMaxKeys) return {.status = 507, .body = "too many keys\n"};
    content_[key] = body;
    return {};
  }
  if (method != "DELETE") return {.status = 405, .body = ""};
  const std::string scope = path.substr(1, slash - 1);
  std::set<std::string>& done = done_[scope];
  done.insert(path.substr(slash + 1));
  if (static_cast<int>(done.size()) >= world_) {
    const std::string prefix = scope + "/";
    auto it = content_.lower_bound(prefix);
    while (it != content_.end() && it->first.rfind(prefix, 0) == 0) it = content_.erase(it);
    done_.erase(scope);
  }
  return {};
}

}  // namespace dure::coordinator
