#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace dure::kube {

// A program that is asked for credentials, as cloud providers ship one.
struct ExecPlugin {
  std::string api_version;
  std::string command;
  std::vector<std::string> args;
  std::vector<std::pair<std::string, std::string>> env;
  std::string install_hint;
  bool wants_cluster = false;  // it is told about the cluster
};

// How to reach one cluster as one user. Certificates and keys are PEM texts.
struct KubeAccess {
  std::string context;  // its name, for people; "in-cluster" in a pod
  std::string server;   // "https://host:6443"
  std::string authority;
  std::string server_name;  // that the server's certificate must have; empty: the host
  bool insecure = false;    // the server's certificate is not looked at
  std::string proxy;
  std::string name_space = "default";

  std::string certificate;  // the client's
  std::string key;
  std::string token;
  std::string token_file;  // read again and again: tokens of pods are replaced while they run
  std::string impersonate;
  std::optional<ExecPlugin> plugin;
};

struct KubeAccessOptions {
  std::string context;     // empty: the current one
  std::string name_space;  // empty: the context's
  // Where configurations are; empty: as kubectl finds them, $KUBECONFIG or ~/.kube/config.
  std::vector<std::string> files;
};

// As kubectl reads its configuration: several files are one, and of what is named twice the first
// counts. Without any, the account of the pod that this runs in. Invalid if there is neither, or if
// what the context names is missing.
Result<KubeAccess> findAccess(const KubeAccessOptions& options);

// The account of a pod; `root` is put before the paths, for tests.
Result<KubeAccess> accessInPod(const std::string& root = "");

}  // namespace dure::kube
