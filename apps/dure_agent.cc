#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

#include "agent/agent.h"
#include "agent/guardian.h"
#include "base/files.h"
#include "base/log.h"
#include "base/process.h"
#include "bundle/file_stream.h"

namespace {

constexpr const char* kAbout =
    "dure-agent: the first process of every task; started by dure, not by hand\n"
    "  dure-agent rsh TASK COMMAND…   run a command in another task of the gang\n"
    "  dure-agent install PATH DIR…   put a copy of this program there, and make the directories\n"
    "  dure-agent send PATH           write a file or a directory to standard output\n"
    "  dure-agent receive DIR         put the files that come from standard input there\n"
    "  dure-agent wait                do nothing until SIGTERM\n"
    "  dure-agent guard               start an agent, and end what it leaves if it is killed\n"
    "  dure-agent --version\n";

int fail(const dure::Error& error) {
  std::cerr << dure::protocol::kAgentWords << error.message() << "\n";
  return error.code() == dure::Code::kNotFound ? dure::protocol::kAgentNotFound
                                               : dure::protocol::kAgentFailed;
}

// Into an image that has nothing to copy with. The directories are made by whom the programs run
// as: what a container's volumes are mounted at would else be root's.
int install(const std::string& path, const std::vector<std::string>& directories) {
  for (const std::string& directory : directories) {
    const auto made = dure::makeDirectories(directory);
    if (!made) return fail(made.error());
  }
  const auto self = dure::readFile("/proc/self/exe", std::size_t{1} << 30);
  if (!self) return fail(self.error());
  const auto made = dure::makeDirectories(std::filesystem::path(path).parent_path());
  if (!made) return fail(made.error());
  const auto written = dure::replaceFile(path, *self, 0755);
  return written ? 0 : fail(written.error());
}

int send(const std::string& path) {
  const auto sent = dure::bundle::sendFiles(
      path, [](std::string_view bytes) { return dure::writeAll(STDOUT_FILENO, bytes); });
  return sent ? 0 : fail(sent.error());
}

int receive(const std::string& folder) {
  const auto received = dure::bundle::receiveFolder(STDIN_FILENO, folder);
  return received ? 0 : fail(received.error());
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const std::string command = arguments.empty() ? "" : arguments[0];
  if (command == "rsh") {
    return dure::agent::runRemoteShell({arguments.begin() + 1, arguments.end()}, std::cerr);
  }
  if (command == "install" && arguments.size() >= 2) {
    return install(arguments[1], {arguments.begin() + 2, arguments.end()});
  }
  if (command == "send" && arguments.size() == 2) return send(arguments[1]);
  if (command == "receive" && arguments.size() == 2) return receive(arguments[1]);
  if (command == "guard" && arguments.size() == 1) return dure::agent::guardTask(argv, std::cerr);
  if (command == "wait" && arguments.size() == 1) return pause();
  if (command == "--version") {
    std::cout << "dure-agent " DURE_VERSION "\n";
    return 0;
  }
  if (!arguments.empty()) {
    std::cerr << kAbout;
    return 2;
  }
  const auto options = dure::protocol::agentOptionsFrom(dure::currentEnvironment());
  if (!options) {
    std::cerr << "dure-agent: " << options.error().message() << "\n";
    return 2;
  }
  // Whoever started us has checked what it says.
  static_cast<void>(dure::setLogLevelFromEnvironment());
  dure::raiseDescriptorLimit();
  return dure::agent::Agent(*options).run(std::cerr);
}
