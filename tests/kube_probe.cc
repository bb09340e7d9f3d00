// The client of Kubernetes from a shell, for tests on a real cluster.
//
//   kube_probe attach NAMESPACE POD CONTAINER [INPUT]
//   kube_probe exec NAMESPACE POD CONTAINER COMMAND…
//
// What is received goes to standard output and standard error; the exit code is the one that was
// told, or 125 with a sentence.
#include <iostream>
#include <string>
#include <vector>

#include "kube/exec.h"

int main(int argc, char** argv) {
  using namespace dure;
  const std::vector<std::string> words(argv + 1, argv + argc);
  const auto fail = [](const std::string& why) {
    std::cerr << "kube_probe: " << why << "\n";
    return 125;
  };
  if (words.size() < 4) return fail("attach or exec, a namespace, a pod, a container");
  auto access = kube::findAccess({});
  if (!access) return fail(access.error().message());
  kube::KubeClient client(*std::move(access));
  kube::ExecRequest request{.name_space = words[1], .pod = words[2], .container = words[3]};
  if (words[0] == "exec") request.command = {words.begin() + 4, words.end()};
  if (words[0] == "attach" && words.size() > 4) {
    request.input = [text = words[4]](const auto& write) { return write(text); };
  }
  const auto code =
      kube::exec(client, request, [](kube::ExecStream stream, std::string_view bytes) {
        (stream == kube::ExecStream::kOut ? std::cout : std::cerr) << bytes << std::flush;
      });
  return code ? *code : fail(code.error().message());
}
