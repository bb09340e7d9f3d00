#include "kube/access.h"

#include <cstdlib>
#include <filesystem>

#include <fmt/core.h>
#include <yaml-cpp/yaml.h>

#include "base/files.h"
#include "base/text.h"
#include "kube/base64.h"

namespace dure::kube {
namespace {

constexpr std::size_t kLargestFile = 16u << 20u;
constexpr const char* kAccount = "/var/run/secrets/kubernetes.io/serviceaccount";

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// What is below `key`; null if nothing is.
YAML::Node below(const YAML::Node& node, const char* key) {
  const YAML::Node found = node.IsDefined() && node.IsMap() ? node[key] : YAML::Node();
  return found.IsDefined() ? found : YAML::Node();
}

std::string text(const YAML::Node& node, const char* key) {
  const YAML::Node found = below(node, key);
  return found.IsScalar() ? found.Scalar() : "";
}

bool flag(const YAML::Node& node, const char* key) { return text(node, key) == "true"; }

// One list of named things: clusters, users or contexts.
struct Named {
  YAML::Node content;
  std::filesystem::path folder;  // what relative names in it are relative to
};
using NamedList = std::map<std::string, Named>;

struct Configuration {
  NamedList clusters, users, contexts;
  std::string current;
  std::vector<std::string> files;  // that were there
};

void collect(const YAML::Node& list, const char* key, const std::filesystem::path& folder,
             NamedList& into) {
  if (!list.IsSequence()) return;
  for (const YAML::Node& entry : list) {
    const std::string name = text(entry, "name");
    if (!name.empty()) into.emplace(name, Named{below(entry, key), folder});
  }
}

Status addFile(const std::string& path, Configuration& into) {
  if (path.empty() || !fileExists(path)) return {};
  auto content = readFile(path, kLargestFile);
  if (!content) return std::move(content).error();
  try {
    const YAML::Node root = YAML::Load(*content);
    if (root.IsNull()) return {};
    if (!root.IsMap()) return Error(Code::kInvalid, path + ": it is not a kubeconfig");
    const auto folder = std::filesystem::path(absolutePath(path)).parent_path();
    collect(below(root, "clusters"), "cluster", folder, into.clusters);
    collect(below(root, "users"), "user", folder, into.users);
    collect(below(root, "contexts"), "context", folder, into.contexts);
    if (into.current.empty()) into.current = text(root, "current-context");
  } catch (const YAML::Exception& error) {
    return Error(Code::kInvalid, fmt::format("{}: {}", path, error.what()));
  }
  into.files.push_back(path);
  return {};
}

std::vector<std::string> usualFiles() {
  const std::string named = variable("KUBECONFIG");
  if (!named.empty()) return split(named, ':');
  const std::string home = variable("HOME");
  return home.empty() ? std::vector<std::string>() : std::vector{home + "/.kube/config"};
}

// The content of `key-data`, or of the file that `key` names.
Result<std::string> pem(const Named& named, const std::string& key, const std::string& what) {
  const std::string data = text(named.content, (key + "-data").c_str());
  if (!data.empty()) {
    auto decoded = fromBase64(data);
    if (!decoded) return std::move(decoded).error().during(what + ": " + key + "-data");
    return decoded;
  }
  const std::string file = text(named.content, key.c_str());
  if (file.empty()) return std::string();
  auto content = readFile(named.folder / file, kLargestFile);
  if (!content) return Error(Code::kInvalid, what + ": " + content.error().message());
  return content;
}

ExecPlugin pluginOf(const Named& user) {
  const YAML::Node exec = below(user.content, "exec");
  ExecPlugin plugin{.api_version = text(exec, "apiVersion"),
                    .command = text(exec, "command"),
                    .install_hint = text(exec, "installHint"),
                    .wants_cluster = flag(exec, "provideClusterInfo")};
  // With a slash in it, it is a path beside the file; else it is looked for.
  if (plugin.command.find('/') != std::string::npos) plugin.command = user.folder / plugin.command;
  for (const YAML::Node& word : below(exec, "args")) plugin.args.push_back(word.as<std::string>());
  for (const YAML::Node& entry : below(exec, "env"))
    plugin.env.emplace_back(text(entry, "name"), text(entry, "value"));
  return plugin;
}

Status readCluster(const Named& cluster, const std::string& name, KubeAccess& access) {
  const std::string what = "cluster " + name;
  access.server = text(cluster.content, "server");
  if (access.server.empty()) return Error(Code::kInvalid, what + " has no server");
  while (access.server.ends_with('/')) access.server.pop_back();
  auto authority = pem(cluster, "certificate-authority", what);
  if (!authority) return std::move(authority).error();
  access.authority = *std::move(authority);
  access.insecure = flag(cluster.content, "insecure-skip-tls-verify");
  access.server_name = text(cluster.content, "tls-server-name");
  access.proxy = text(cluster.content, "proxy-url");
  return {};
}

Status readUser(const Named& user, const std::string& name, KubeAccess& access) {
  const std::string what = "user " + name;
  auto certificate = pem(user, "client-certificate", what);
  if (!certificate) return std::move(certificate).error();
  auto key = pem(user, "client-key", what);
  if (!key) return std::move(key).error();
  access.certificate = *std::move(certificate);
  access.key = *std::move(key);
  access.token = text(user.content, "token");
  const std::string token_file = text(user.content, "tokenFile");
  if (!token_file.empty()) access.token_file = user.folder / token_file;
  access.impersonate = text(user.content, "as");
  if (below(user.content, "exec").IsMap()) access.plugin = pluginOf(user);
  if (!below(user.content, "auth-provider").IsNull()) {
    return Error(Code::kInvalid, what +
                                     " has an auth-provider, which Kubernetes has given up; use an "
                                     "exec plugin or a token");
  }
  return {};
}

Error missing(const std::string& what, const std::string& name, const NamedList& there) {
  std::vector<std::string> names;
  for (const auto& [other, named] : there) names.push_back(other);
  return Error(Code::kInvalid, fmt::format("there is no {} {} in the kubeconfig{}", what, name,
                                           names.empty() ? "" : "; it has " + join(names, ", ")));
}

Result<KubeAccess> chosen(const Configuration& all, const KubeAccessOptions& options) {
  KubeAccess access;
  access.context = options.context.empty() ? all.current : options.context;
  if (access.context.empty()) {
    return Error(Code::kInvalid, "the kubeconfig has no current-context: give --context");
  }
  const auto context = all.contexts.find(access.context);
  if (context == all.contexts.end()) return missing("context", access.context, all.contexts);
  const std::string cluster_name = text(context->second.content, "cluster");
  const std::string user_name = text(context->second.content, "user");
  const auto cluster = all.clusters.find(cluster_name);
  if (cluster == all.clusters.end()) return missing("cluster", cluster_name, all.clusters);
  if (auto read = readCluster(cluster->second, cluster_name, access); !read)
    return std::move(read).error();
  if (!user_name.empty()) {
    const auto user = all.users.find(user_name);
    if (user == all.users.end()) return missing("user", user_name, all.users);
    if (auto read = readUser(user->second, user_name, access); !read)
      return std::move(read).error();
  }
  const std::string name_space = text(context->second.content, "namespace");
  if (!name_space.empty()) access.name_space = name_space;
  return access;
}

}  // namespace

Result<KubeAccess> findAccess(const KubeAccessOptions& options) {
  Configuration all;
  for (const std::string& file : options.files.empty() ? usualFiles() : options.files) {
    if (auto added = addFile(file, all); !added) return std::move(added).error();
  }
  auto access = all.files.empty() ? accessInPod() : chosen(all, options);
  if (access && !options.name_space.empty()) access->name_space = options.name_space;
  return access;
}

Result<KubeAccess> accessInPod(const std::string& root) {
  const std::string host = variable("KUBERNETES_SERVICE_HOST");
  const std::string port = variable("KUBERNETES_SERVICE_PORT");
  const std::string account = root + kAccount;
  if (host.empty() || port.empty() || !fileExists(account + "/token")) {
    return Error(Code::kInvalid,
                 "no cluster is known: there is no kubeconfig (KUBECONFIG, or ~/.kube/config), and "
                 "this is not a pod");
  }
  const bool is_v6 = host.find(':') != std::string::npos;
  KubeAccess access{
      .context = "in-cluster",
      .server = fmt::format("https://{}{}{}:{}", is_v6 ? "[" : "", host, is_v6 ? "]" : "", port),
      .token_file = account + "/token"};
  auto authority = readFile(account + "/ca.crt", kLargestFile);
  if (!authority) return std::move(authority).error();
  access.authority = *std::move(authority);
  if (auto name_space = readFile(account + "/namespace", 4096); name_space && !name_space->empty())
    access.name_space = *std::move(name_space);
  return access;
}

}  // namespace dure::kube
