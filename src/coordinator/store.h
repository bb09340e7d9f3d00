#pragma once

#include <map>
#include <set>
#include <string>

namespace dure::coordinator {

// The key-value store at which Horovod's ranks find each other. A path is "/scope/key".
class RendezvousStore {
 public:
  struct Reply {
    int status = 200;
    std::string body;
  };

  // Forgets everything of the generation before. Keys are "scope/key".
  void reset(std::map<std::string, std::string> content);

  // GET gives the value or 404, PUT stores it, DELETE of /scope/rank says that this rank has done
  // with the scope: when as many ranks have as there are in the scope, it is dropped. Anything
  // else is 400 or 405.
  Reply handle(const std::string& method, const std::string& path, const std::string& body);

  // How many ranks must be done with a scope before it is dropped.
  void setWorld(int ranks) { world_ = ranks; }

 private:
  std::map<std::string, std::string> content_;
  std::map<std::string, std::set<std::string>> done_;
  int world_ = 1;
};

}  // namespace dure::coordinator
