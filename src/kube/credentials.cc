#include "kube/credentials.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "base/fd.h"
#include "base/files.h"
#include "base/process.h"
#include "kube/timestamp.h"

namespace dure::kube {
namespace {

using namespace std::chrono_literals;

// Tokens of pods are replaced long before they run out.
constexpr auto kReadAgain = 60s;
// Asked a little early, so that it does not run out on the way.
constexpr auto kMargin = 10s;
constexpr auto kPluginPatience = 60s;
constexpr std::size_t kLargestAnswer = 1u << 20u;

std::string trimmed(std::string text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0)
    text.pop_back();
  return text;
}

struct Answer {
  std::string out;
  ExitStatus status;
};

// Everything the program prints until it ends; it is ended if it takes too long.
Result<Answer> run(const std::vector<std::string>& argv, const std::vector<std::string>& env) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return systemError("pipe");
  Fd from(ends[0]);
  Fd to(ends[1]);
  auto pid = spawn({.argv = argv, .env = env, .out = to.get()});
  if (!pid) return std::move(pid).error();
  to.reset();
  Answer answer;
  const auto deadline = std::chrono::steady_clock::now() + kPluginPatience;
  bool in_time = true;
  while (true) {
    const auto left =
        std::chrono::duration_cast<Duration>(deadline - std::chrono::steady_clock::now());
    pollfd wait{.fd = from.get(), .events = POLLIN};
    const int ready = poll(&wait, 1, static_cast<int>(std::max<std::int64_t>(0, left.count())));
    if (ready < 0 && errno == EINTR) continue;
    in_time = ready > 0;
    if (!in_time) break;
    char buffer[4096];
    const ssize_t got = read(from.get(), buffer, sizeof(buffer));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    answer.out.append(buffer, static_cast<std::size_t>(got));
    if (answer.out.size() > kLargestAnswer) break;
  }
  if (!in_time) kill(-*pid, SIGKILL);
  int status = 0;
  while (waitpid(*pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (!in_time) return Error(Code::kUnavailable, "it did not answer in time");
  answer.status = decodeWaitStatus(status);
  return answer;
}

}  // namespace

Result<Credential> Credentials::current() {
  const std::lock_guard lock(mutex_);
  const TimePoint now = std::chrono::system_clock::now();
  if (is_known_ && now < good_until_) return known_;
  if (access_.plugin) {
    if (auto asked = askPlugin(); !asked)
      return std::move(asked).error().during("credentials from " + access_.plugin->command);
  } else if (!access_.token_file.empty()) {
    auto token = readFile(access_.token_file, kLargestAnswer);
    if (!token) return std::move(token).error();
    known_ = {.token = trimmed(*std::move(token)),
              .certificate = access_.certificate,
              .key = access_.key};
    good_until_ = now + kReadAgain;
  } else {
    known_ = {.token = access_.token, .certificate = access_.certificate, .key = access_.key};
    good_until_ = TimePoint::max();
  }
  is_known_ = true;
  return known_;
}

bool Credentials::renew() {
  const std::lock_guard lock(mutex_);
  is_known_ = false;
  return access_.plugin || !access_.token_file.empty();
}

Status Credentials::askPlugin() {
  const ExecPlugin& plugin = *access_.plugin;
  nlohmann::json question = {{"apiVersion", plugin.api_version},
                             {"kind", "ExecCredential"},
                             {"spec", {{"interactive", false}}}};
  if (plugin.wants_cluster) {
    question["spec"]["cluster"] = {{"server", access_.server},
                                   {"insecure-skip-tls-verify", access_.insecure}};
  }
  std::vector<std::string> env;
  const std::vector<std::string> inherited = currentEnvironment();
  for (const std::string& entry : inherited) {
    const auto is_replaced = [&](const auto& pair) { return entry.starts_with(pair.first + "="); };
    if (std::none_of(plugin.env.begin(), plugin.env.end(), is_replaced)) env.push_back(entry);
  }
  for (const auto& [name, value] : plugin.env) env.push_back(name + "=" + value);
  env.push_back("KUBERNETES_EXEC_INFO=" + question.dump());

  const std::string hint = plugin.install_hint.empty() ? "" : "; " + plugin.install_hint;
  auto program = findProgram(plugin.command, env);
  if (!program) return Error(Code::kInvalid, program.error().message() + hint);
  std::vector<std::string> argv{*program};
  argv.insert(argv.end(), plugin.args.begin(), plugin.args.end());
  auto answer = run(argv, env);
  if (!answer) return std::move(answer).error();
  if (!answer->status.ok())
    return Error(Code::kUnavailable, "it " + describeExit(answer->status) + hint);

  const auto said = nlohmann::json::parse(answer->out, nullptr, false);
  const auto status = said.is_object() ? said.value("status", nlohmann::json()) : nlohmann::json();
  if (!status.is_object()) return Error(Code::kInvalid, "it did not print an ExecCredential");
  if (said.value("apiVersion", "") != plugin.api_version) {
    return Error(Code::kInvalid, fmt::format("it speaks {}, the kubeconfig {}",
                                             said.value("apiVersion", ""), plugin.api_version));
  }
  known_ = {.token = status.value("token", ""),
            .certificate = status.value("clientCertificateData", access_.certificate),
            .key = status.value("clientKeyData", access_.key)};
  if (known_.token.empty() && known_.certificate.empty())
    return Error(Code::kInvalid, "it gave neither a token nor a certificate");
  const std::string expires = status.value("expirationTimestamp", "");
  // Of a time that cannot be read nothing is known: the server will tell.
  good_until_ = parseTimestamp(expires).value_or(TimePoint::max()) - kMargin;
  return {};
}

}  // namespace dure::kube
