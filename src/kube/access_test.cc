#include "kube/access.h"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

#include "base/files.h"
#include "kube/credentials.h"

namespace dure::kube {
namespace {

using testing::HasSubstr;

class AccessTest : public testing::Test {
 protected:
  void SetUp() override {
    dir_ = testing::TempDir() + "kube-" + std::to_string(getpid());
    ASSERT_TRUE(makeDirectories(dir_));
  }
  void TearDown() override { ASSERT_TRUE(removeTree(dir_)); }

  std::string file(const std::string& name, const std::string& content) {
    const std::string path = dir_ + "/" + name;
    EXPECT_TRUE(replaceFile(path, content));
    return path;
  }

  std::string dir_;
};

constexpr const char* kFirst = R"(
apiVersion: v1
kind: Config
current-context: near
contexts:
- {name: near, context: {cluster: here, user: me, namespace: mine}}
- {name: far, context: {cluster: there, user: you}}
- {name: broken, context: {cluster: nowhere, user: me}}
clusters:
- name: here
  cluster: {server: "https://10.0.0.1:6443/", certificate-authority: ca.pem}
users:
- name: me
  user: {client-certificate-data: Y2VydA==, client-key-data: a2V5, token: abc}
)";
constexpr const char* kSecond = R"(
current-context: far
clusters:
- {name: here, cluster: {server: "https://elsewhere"}}
- {name: there, cluster: {server: "https://there", insecure-skip-tls-verify: true, tls-server-name: k8s, proxy-url: "http://p:1"}}
users:
- {name: you, user: {tokenFile: token, as: boss}}
)";

TEST_F(AccessTest, ReadsTheCurrentContext) {
  file("ca.pem", "AUTHORITY");
  const auto access = findAccess({.files = {file("config", kFirst)}});
  ASSERT_TRUE(access) << access.error().message();
  EXPECT_EQ(access->context, "near");
  EXPECT_EQ(access->server, "https://10.0.0.1:6443");
  EXPECT_EQ(access->authority, "AUTHORITY");
  EXPECT_EQ(access->certificate, "cert");
  EXPECT_EQ(access->key, "key");
  EXPECT_EQ(access->token, "abc");
  EXPECT_EQ(access->name_space, "mine");
}

TEST_F(AccessTest, OfSeveralFilesTheFirstCounts) {
  file("ca.pem", "AUTHORITY");
  const std::vector files{dir_ + "/missing", file("one", kFirst), file("two", kSecond)};
  const auto near = findAccess({.files = files});
  ASSERT_TRUE(near);
  EXPECT_EQ(near->server, "https://10.0.0.1:6443");
  const auto far = findAccess({.context = "far", .name_space = "other", .files = files});
  ASSERT_TRUE(far) << far.error().message();
  EXPECT_EQ(far->server, "https://there");
  EXPECT_TRUE(far->insecure);
  EXPECT_EQ(far->server_name, "k8s");
  EXPECT_EQ(far->proxy, "http://p:1");
  EXPECT_EQ(far->token_file, dir_ + "/token");
  EXPECT_EQ(far->impersonate, "boss");
  EXPECT_EQ(far->name_space, "other");
}

TEST_F(AccessTest, SaysWhatIsMissing) {
  const std::string config = file("config", kFirst);
  const auto unknown = findAccess({.context = "fra", .files = {config}});
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().message(),
            "there is no context fra in the kubeconfig; it has broken, far, near");
  EXPECT_THAT(findAccess({.context = "broken", .files = {config}}).error().message(),
              HasSubstr("no cluster nowhere"));
  EXPECT_THAT(findAccess({.files = {config}}).error().message(), HasSubstr("ca.pem"));
  EXPECT_THAT(findAccess({.files = {file("bad", "a: [")}}).error().message(), HasSubstr("bad: "));
  EXPECT_THAT(findAccess({.files = {file("list", "- 1")}}).error().message(),
              HasSubstr("not a kubeconfig"));
}

TEST_F(AccessTest, WithoutAConfigurationItMustBeAPod) {
  unsetenv("KUBERNETES_SERVICE_HOST");
  const auto none = findAccess({.files = {dir_ + "/missing"}});
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error().message(), HasSubstr("no cluster is known"));

  const std::string account = dir_ + "/var/run/secrets/kubernetes.io/serviceaccount";
  ASSERT_TRUE(makeDirectories(account));
  ASSERT_TRUE(replaceFile(account + "/token", "t1\n"));
  ASSERT_TRUE(replaceFile(account + "/ca.crt", "CA"));
  ASSERT_TRUE(replaceFile(account + "/namespace", "team"));
  setenv("KUBERNETES_SERVICE_HOST", "fd00::1", 1);
  setenv("KUBERNETES_SERVICE_PORT", "443", 1);
  const auto access = accessInPod(dir_);
  ASSERT_TRUE(access) << access.error().message();
  EXPECT_EQ(access->server, "https://[fd00::1]:443");
  EXPECT_EQ(access->name_space, "team");
  unsetenv("KUBERNETES_SERVICE_HOST");
  unsetenv("KUBERNETES_SERVICE_PORT");

  // A token that is replaced is read again when the server refuses the old one.
  Credentials credentials(*access);
  EXPECT_EQ(credentials.current()->token, "t1");
  ASSERT_TRUE(replaceFile(account + "/token", "t2"));
  EXPECT_EQ(credentials.current()->token, "t1");
  EXPECT_TRUE(credentials.renew());
  EXPECT_EQ(credentials.current()->token, "t2");
}

class PluginTest : public AccessTest {
 protected:
  KubeAccess withPlugin(const std::string& script) {
    const std::string path = file("plugin", "#!/bin/sh\n" + script);
    chmod(path.c_str(), 0755);
    return {.plugin = ExecPlugin{.api_version = "client.authentication.k8s.io/v1",
                                 .command = path,
                                 .args = {"one"},
                                 .env = {{"EXTRA", "two"}},
                                 .install_hint = "install it"}};
  }
};

TEST_F(PluginTest, IsAskedOnceUntilItsAnswerRunsOut) {
  Credentials credentials(withPlugin(R"(echo x >> "$0.count"
cat <<END
{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
 "status": {"token": "$1-$EXTRA", "expirationTimestamp": "2199-01-01T00:00:00Z"}}
END)"));
  EXPECT_EQ(credentials.current()->token, "one-two");
  EXPECT_EQ(credentials.current()->token, "one-two");
  EXPECT_EQ(readFile(dir_ + "/plugin.count", 100).operator*(), "x\n");
  EXPECT_TRUE(credentials.renew());
  EXPECT_EQ(credentials.current()->token, "one-two");
  EXPECT_EQ(readFile(dir_ + "/plugin.count", 100).operator*(), "x\nx\n");
}

TEST_F(PluginTest, SaysWhatWentWrong) {
  const auto problem = [&](const std::string& script) {
    const auto got = Credentials(withPlugin(script)).current();
    return got ? "nothing" : got.error().message();
  };
  EXPECT_THAT(problem("exit 3"), HasSubstr("exited with 3; install it"));
  EXPECT_THAT(problem("echo hello"), HasSubstr("did not print an ExecCredential"));
  EXPECT_THAT(problem(R"(echo '{"apiVersion": "x/v1", "status": {"token": "t"}}')"),
              HasSubstr("it speaks x/v1"));
  EXPECT_THAT(problem(R"(echo '{"apiVersion": "client.authentication.k8s.io/v1", "status": {}}')"),
              HasSubstr("neither a token nor a certificate"));
  KubeAccess absent = withPlugin("");
  absent.plugin->command = "no-such-plugin";
  EXPECT_THAT(Credentials(absent).current().error().message(), HasSubstr("install it"));
}

}  // namespace
}  // namespace dure::kube
