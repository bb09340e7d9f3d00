#include "predict/serve.h"

#include <pthread.h>

#include <csignal>
#include <iostream>
#include <set>
#include <thread>

#include <fmt/core.h>

#include "base/files.h"
#include "base/text.h"
#include "predict/exit_code.h"
#include "predict/torch_model.h"
#include "serve/batcher.h"
#include "serve/service.h"
#include "serve/web_server.h"
#include "web/page_files.h"

namespace dure::predict {
namespace {

// How often files are looked at.
constexpr Duration kLook{250};
constexpr std::size_t kMostOfToken = 4096;

void say(const std::string& sentence) {
  fmt::print(stderr, "dure-server: {}\n", sentence);
  std::fflush(stderr);
}

Result<std::vector<serve::ModelStore::Place>> placesOf(const serve::ServeArguments& arguments) {
  if (!arguments.names.empty() && arguments.names.size() != arguments.models.size()) {
    return Error(Code::kInvalid,
                 fmt::format("{} models and {} names: give one --name for each, or none",
                             arguments.models.size(), arguments.names.size()));
  }
  std::vector<serve::ModelStore::Place> places;
  std::set<std::string> names;
  for (std::size_t i = 0; i < arguments.models.size(); ++i) {
    const std::string& path = arguments.models[i];
    const std::string name =
        arguments.names.empty() ? serve::modelNameOf(path) : arguments.names[i];
    if (name.empty() || name.find_first_of("/:?#%") != std::string::npos)
      return Error(Code::kInvalid,
                   fmt::format("'{}' is no name for a model; give another with --name", name));
    if (!names.insert(name).second)
      return Error(Code::kInvalid,
                   fmt::format("two models are called {}; tell them apart with --name", name));
    places.push_back({name, path});
  }
  return places;
}

Result<std::string> readToken(const std::string& path) {
  if (path.empty()) return std::string();
  auto text = readFile(path, kMostOfToken);
  if (!text) return std::move(text).error().during("--token-file");
  while (!text->empty() && (text->back() == '\n' || text->back() == '\r')) text->pop_back();
  if (text->empty() || text->find_first_of(" \t\n\r") != std::string::npos)
    return Error(Code::kInvalid, fmt::format("--token-file: {} must hold one word", path));
  return text;
}

Result<Duration> durationOf(const char* flag, const std::string& text) {
  const auto duration = parseDuration(text);
  if (!duration)
    return Error(Code::kInvalid, fmt::format("{}: '{}' is no duration, such as 1ms", flag, text));
  return *duration;
}

// What the arguments say, checked.
struct Plan {
  std::vector<serve::ModelStore::Place> places;
  std::string token;
  serve::WebOptions web;
  serve::BatchOptions batch;
  Duration drain{};
  Duration grace{};
};

Result<Plan> planOf(const serve::ServeArguments& arguments) {
  auto places = placesOf(arguments);
  if (!places) return std::move(places).error();
  auto token = readToken(arguments.token_file);
  if (!token) return std::move(token).error();
  const auto delay = durationOf("--delay", arguments.delay);
  const auto drain = durationOf("--drain", arguments.drain);
  const auto grace = durationOf("--grace", arguments.grace);
  for (const auto* each : {&delay, &drain, &grace}) {
    if (!*each) return each->error();
  }
  const auto body = parseBytes(arguments.max_body);
  if (!body || *body < 1)
    return Error(Code::kInvalid,
                 fmt::format("--max-body: '{}' is no size, such as 32Mi", arguments.max_body));
  const std::size_t cores = std::max(1u, std::thread::hardware_concurrency());
  Plan plan;
  plan.places = *std::move(places);
  plan.token = *std::move(token);
  plan.drain = *drain;
  plan.grace = *grace;
  plan.batch = {.size = arguments.batch,
                .delay = *delay,
                .queue = arguments.queue,
                .threads = arguments.threads == 0 ? cores : arguments.threads};
  plan.web.host = arguments.host == "localhost" ? "127.0.0.1" : arguments.host;
  plan.web.port = arguments.port;
  plan.web.certificate = arguments.certificate;
  plan.web.key = arguments.key;
  plan.web.connections = arguments.connections;
  plan.web.limits.body = static_cast<std::size_t>(*body);
  // A thread moves the bytes of some thirty thousand requests a second.
  plan.web.threads = std::max<std::size_t>(1, cores / 4);
  return plan;
}

int waitForSignal(const sigset_t& signals) {
  int got = 0;
  while (sigwait(&signals, &got) != 0) {
  }
  return got;
}

}  // namespace

int serveModels(const serve::ServeArguments& arguments) {
  // Before any thread, so that none but this one gets them.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  auto plan = planOf(arguments);
  if (!plan) return failWith(plan.error());
  std::unique_ptr<serve::AccessLog> log;
  if (!arguments.access_log.empty()) {
    auto opened = serve::AccessLog::open(arguments.access_log);
    if (!opened) return failWith(opened.error());
    log = *std::move(opened);
  }
  prepareThread();
  serve::Metrics metrics;
  const auto load = [](const std::string& path) -> Result<std::shared_ptr<const serve::Model>> {
    auto loaded = loadTorchModel(path);
    if (!loaded) return std::move(loaded).error();
    return std::shared_ptr<const serve::Model>(*std::move(loaded));
  };
  for (const auto& place : plan->places) {
    if (!fileExists(place.path))
      say(fmt::format("{}: {} is not there yet", place.name, place.path));
  }
  auto batcher = std::make_unique<serve::Batcher>(plan->batch, metrics, prepareThread);
  serve::ModelStore store(plan->places, load, kLook, say);
  serve::Service service(store, *batcher, metrics, plan->token, web::pageFiles());
  auto web = serve::WebServer::listen(plan->web, service, metrics, log.get());
  if (!web) return failWith(web.error());
  const bool v6 = plan->web.host.find(':') != std::string::npos;
  fmt::print("{}://{}{}{}:{}/\n", plan->web.certificate.empty() ? "http" : "https", v6 ? "[" : "",
             plan->web.host, v6 ? "]" : "", (*web)->port());
  std::fflush(stdout);
  waitForSignal(signals);
  say("stopping: what is under way is finished first");
  service.beginStopping();
  // Whoever sends requests here has to see that first. A second signal ends the wait.
  const timespec wait{.tv_sec = plan->drain.count() / 1000,
                      .tv_nsec = plan->drain.count() % 1000 * 1'000'000};
  sigtimedwait(&signals, nullptr, &wait);
  if (!(*web)->stop(plan->grace)) say("some requests did not finish in time");
  batcher.reset();
  return kDone;
}

}  // namespace dure::predict
