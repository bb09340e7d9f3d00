#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "base/server_names.h"

// The arguments of the commands that dure-server carries out, for both programs: `dure` checks and
// completes them, and hands them on. In a header, so that `dure` need not link what they are for.
namespace dure::serve {

struct ServeArguments {
  std::vector<std::string> models;
  std::vector<std::string> names;
  std::string host = "127.0.0.1";
  int port = 8080;
  std::size_t batch = 32;
  std::string delay = "1ms";
  std::size_t queue = 1024;
  std::size_t threads = 0;
  std::string max_body = "32Mi";
  std::size_t connections = 4096;
  std::string token_file;
  std::string certificate;
  std::string key;
  std::string access_log;
  std::string drain = "500ms";
  std::string grace = "30s";
};

struct EvaluateArguments {
  std::string model;
  std::string data;
  std::string split;
  std::string format;
  std::string samples;
  std::string labels;
  bool json = false;
};

struct PredictArguments {
  std::string model;
  std::string file;
  std::string format = "json";
};

inline constexpr const char* kModelHelp =
    "A model: .h5, .safetensors, .pt, or a directory of checkpoints";

inline void addServeArguments(CLI::App& command, ServeArguments& arguments) {
  command.add_option("models", arguments.models, kModelHelp)->option_text("MODEL…")->required();
  command
      .add_option("--name", arguments.names,
                  "The name of a model, one for each in their order; its file's without the "
                  "ending if left out")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->option_text("NAME");
  command.add_option("--host", arguments.host, "The address to listen on")
      ->capture_default_str()
      ->envname(server_variables::kHost);
  command.add_option("--port", arguments.port, "The port; 0 takes any free one")
      ->capture_default_str()
      ->check(CLI::Range(0, 65535));
  command.add_option("--batch", arguments.batch, "Requests that a model runs on together")
      ->capture_default_str()
      ->check(CLI::Range(1, 4096));
  command
      .add_option("--delay", arguments.delay,
                  "What a request waits for others at the most, while the machine is busy")
      ->capture_default_str();
  command.add_option("--queue", arguments.queue, "Requests that may wait; more get 503")
      ->capture_default_str()
      ->check(CLI::Range(1, 1'000'000));
  command
      .add_option("--threads", arguments.threads, "Threads that run models; 0: one for each core")
      ->capture_default_str()
      ->check(CLI::Range(0, 1024));
  command.add_option("--max-body", arguments.max_body, "The largest request")
      ->capture_default_str();
  command.add_option("--connections", arguments.connections, "Connections at once")
      ->capture_default_str()
      ->check(CLI::Range(1, 1'000'000));
  command.add_option("--token-file", arguments.token_file,
                     "A file with the token that requests must carry: Authorization: Bearer TOKEN");
  auto* certificate =
      command.add_option("--cert", arguments.certificate, "A certificate chain (PEM), for HTTPS");
  auto* key = command.add_option("--key", arguments.key, "Its private key (PEM)");
  certificate->needs(key);
  key->needs(certificate);
  command.add_option("--access-log", arguments.access_log,
                     "A file that gets a line of JSON for every request; - is standard output");
  command
      .add_option("--drain", arguments.drain,
                  "How long /readyz says 503 before the server stops to listen")
      ->capture_default_str();
  command.add_option("--grace", arguments.grace, "How long requests may take to finish then")
      ->capture_default_str();
}

inline void addEvaluateArguments(CLI::App& command, EvaluateArguments& arguments) {
  command.add_option("model", arguments.model, kModelHelp)->option_text("MODEL")->required();
  command.add_option("data", arguments.data, "A data set: all that training reads")
      ->option_text("DATA")
      ->required();
  command.add_option("--split", arguments.split,
                     "train or test; the test split if left out, or all where there is none");
  command.add_option("--format", arguments.format,
                     "idx, npz, npy, arrow or csv; found out if left out");
  command.add_option("--samples", arguments.samples, "The column or array with the samples");
  command.add_option("--labels", arguments.labels, "The same for the labels");
  command.add_flag("--json", arguments.json, "For programs");
}

inline void addPredictArguments(CLI::App& command, PredictArguments& arguments) {
  command.add_option("model", arguments.model, kModelHelp)->option_text("MODEL")->required();
  command
      .add_option("file", arguments.file,
                  "Texts (a line each), a PNG or JPEG or a directory of them, .npz, .npy, .csv, "
                  "or a data set; - is standard input")
      ->option_text("FILE")
      ->required();
  command.add_option("--format", arguments.format, "json (a line for each sample) or csv")
      ->capture_default_str()
      ->check(CLI::IsMember({"json", "csv"}));
}

}  // namespace dure::serve
