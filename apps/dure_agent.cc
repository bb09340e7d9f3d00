#include <iostream>
#include <string>
#include <vector>

#include "base/process.h"
#include "launch/agent.h"

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (!arguments.empty() && arguments[0] == "rsh") {
    return dure::runRemoteShell({arguments.begin() + 1, arguments.end()}, std::cerr);
  }
  if (!arguments.empty()) {
    const bool version = arguments[0] == "--version";
    (version ? std::cout : std::cerr)
        << (version ? "dure-agent " DURE_VERSION "\n"
                    : "dure-agent: the first process of every task; started by dure, not by hand\n"
                      "  dure-agent rsh TASK COMMAND…   run a command in another task of the gang\n"
                      "  dure-agent --version\n");
    return version ? 0 : 2;
  }
  const auto options = dure::agentOptionsFrom(dure::currentEnvironment());
  if (!options) {
    std::cerr << "dure-agent: " << options.error().message() << "\n";
    return 2;
  }
  return dure::Agent(*options).run(std::cerr);
}
