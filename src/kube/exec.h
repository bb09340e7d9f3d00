#pragma once

#include <functional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "kube/client.h"

namespace dure::kube {

enum class ExecStream { kOut, kErr };

struct ExecRequest {
  std::string name_space;
  std::string pod;
  std::string container;
  std::vector<std::string> command;  // empty: attach to the program that runs there
  // Writes the command's input piece by piece; null: it has none. The command is not told where
  // that ends: it must know. It should print nothing meanwhile.
  using Write = std::function<Status(std::string_view)>;
  std::function<Status(const Write&)> input;
};

// Runs a command in a container, or attaches to what runs there, and gives its output as it comes.
// How it exited; an error if it could not run, or the connection broke.
Result<int> exec(KubeClient& client, const ExecRequest& request,
                 const std::function<void(ExecStream, std::string_view)>& take,
                 const std::stop_token& stop = {});

}  // namespace dure::kube
