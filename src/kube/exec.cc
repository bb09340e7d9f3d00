#include "kube/exec.h"

#include <algorithm>

#include <fmt/core.h>

#include "kube/websocket.h"

namespace dure::kube {
namespace {

using nlohmann::json;

constexpr const char* kProtocol = "v4.channel.k8s.io";
// The first byte of every message says which channel it belongs to.
constexpr char kInput = 0, kOut = 1, kErr = 2, kStatus = 3;
// From how a command ended until the server closes.
constexpr Duration kClosing{5000};
constexpr std::size_t kPiece = 32u << 10u;

// What the last message of the status channel says: 0, or how the command exited.
Result<int> exitCodeIn(const std::string& text) {
  const json status = json::parse(text, nullptr, false);
  if (!status.is_object()) return Error(Code::kUnavailable, "the end of the command is garbled");
  if (status.value("status", "") == "Success") return 0;
  if (status.value("reason", "") == "NonZeroExitCode") {
    for (const json& cause :
         status.value("details", json::object()).value("causes", json::array())) {
      if (cause.value("reason", "") == "ExitCode")
        return std::atoi(cause.value("message", "1").c_str());
    }
  }
  return Error(Code::kUnavailable, status.value("message", "the command could not run"));
}

}  // namespace

Result<int> exec(KubeClient& client, const ExecRequest& request,
                 const std::function<void(ExecStream, std::string_view)>& take,
                 const std::stop_token& stop) {
  const bool attach = request.command.empty();
  std::string path =
      KubeAddress{kinds::kPods, request.name_space, request.pod, attach ? "attach" : "exec"}
          .path() +
      "?stdout=true&stderr=true";
  if (!request.container.empty()) path += "&container=" + escapedForUrl(request.container);
  if (request.input) path += "&stdin=true";
  for (const std::string& word : request.command) path += "&command=" + escapedForUrl(word);
  auto socket = client.upgrade(path, kProtocol);
  if (!socket) return std::move(socket).error();

  if (request.input) {
    const auto write = [&](std::string_view left) -> Status {
      for (; !left.empty(); left.remove_prefix(std::min(left.size(), kPiece))) {
        if (stop.stop_requested()) return Error(Code::kUnavailable, "it was broken off");
        auto sent = socket->send(kInput + std::string(left.substr(0, kPiece)), stop);
        if (!sent) return sent;
      }
      return {};
    };
    if (auto written = request.input(write); !written) return std::move(written).error();
  }
  std::optional<Result<int>> code;
  while (true) {
    auto message = code ? socket->receive(stop, kClosing) : socket->receive(stop);
    // How it ended may be told before the last of what it printed; the server closes after both.
    if ((!message || !*message) && code) return *std::move(code);
    if (!message) return std::move(message).error();
    if (!*message) {
      return Error(Code::kUnavailable, stop.stop_requested()
                                           ? "it was broken off"
                                           : "the connection ended before the command did");
    }
    if ((*message)->empty()) continue;
    const char channel = (**message)[0];
    const std::string_view bytes = std::string_view(**message).substr(1);
    if (channel == kStatus && !bytes.empty()) code = exitCodeIn(std::string(bytes));
    if (channel == kOut && !bytes.empty()) take(ExecStream::kOut, bytes);
    if (channel == kErr && !bytes.empty()) take(ExecStream::kErr, bytes);
  }
}

}  // namespace dure::kube
