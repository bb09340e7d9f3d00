#include "backend/kubernetes/cluster_service.h"

#include "backend/kubernetes/test_cluster.h"

namespace dure::kubernetes {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* kName = "imdb-serve";

// A service of a pipeline on a cluster in memory; what its controller and kubelets do the test
// says.
class ClusterServiceTest : public ClusterTest {
 protected:
  ClusterServiceTest() {
    service_.pipeline = "imdb";
    service_.part = "serve";
    service_.job =
        jobOf("name: serve\nprogram: {command: [dure, serve, /model.h5]}\nresources: {cpus: 2}\n");
    service_.port = 8080;
    service_.ready = "/readyz";
    service_.type = "LoadBalancer";
    service_.place = {.context = "c", .name_space = "team", .claim = "imdb-volume", .folder = "a"};
  }
  json deployment() const { return api_.get(at(kube::kinds::kDeployments, kName)); }
  json service() const { return api_.get(at(kube::kinds::kServices, kName)); }
  void becomes(const json& status) {
    json object = deployment();
    object["status"] = status;
    object["metadata"]["generation"] = 2;
    api_.put(at(kube::kinds::kDeployments, kName), object);
  }
  ServiceView view() {
    const auto seen = viewService(client_, service_.place, kName);
    EXPECT_TRUE(seen) << seen.error().message();
    return *seen;
  }

  ClusterService service_;
};

TEST_F(ClusterServiceTest, IsADeploymentBehindAServiceOnPort80) {
  ASSERT_TRUE(startService(client_, service_));
  const json container = deployment()["spec"]["template"]["spec"]["containers"][0];
  EXPECT_EQ(container["readinessProbe"]["httpGet"]["path"], "/readyz");
  EXPECT_EQ(container["livenessProbe"]["tcpSocket"]["port"], 8080)
      << "who waits for a model is alive";
  EXPECT_EQ(container["resources"]["requests"]["cpu"], "2");
  EXPECT_EQ(deployment()["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"], 0);
  EXPECT_EQ(deployment()["spec"]["template"]["spec"]["automountServiceAccountToken"], false);
  EXPECT_EQ(service()["spec"]["type"], "LoadBalancer");
  EXPECT_EQ(service()["spec"]["ports"][0]["port"], 80);
  EXPECT_EQ(service()["spec"]["ports"][0]["targetPort"], 8080);
  EXPECT_EQ(service()["spec"]["selector"], deployment()["spec"]["selector"]["matchLabels"]);
}

TEST_F(ClusterServiceTest, WithoutAPortItHasNoServiceAndNoProbes) {
  service_.port = 0;
  ASSERT_TRUE(startService(client_, service_));
  EXPECT_FALSE(deployment()["spec"]["template"]["spec"]["containers"][0].contains("livenessProbe"));
  EXPECT_FALSE(api_.has(at(kube::kinds::kServices, kName)));
}

TEST_F(ClusterServiceTest, IsReadyWhenWhatWasLastAskedForAnswers) {
  EXPECT_FALSE(view().there);
  ASSERT_TRUE(startService(client_, service_));
  EXPECT_TRUE(view().there);
  EXPECT_FALSE(view().ready);
  becomes({{"observedGeneration", 1}, {"updatedReplicas", 1}, {"availableReplicas", 1}});
  EXPECT_FALSE(view().ready) << "that was the one before";
  becomes({{"observedGeneration", 2},
           {"updatedReplicas", 1},
           {"availableReplicas", 1},
           {"unavailableReplicas", 1}});
  EXPECT_FALSE(view().ready) << "the earlier pod answers still";
  becomes({{"observedGeneration", 2}, {"updatedReplicas", 1}, {"availableReplicas", 1}});
  EXPECT_TRUE(view().ready);
}

TEST_F(ClusterServiceTest, TellsWhatKeepsItsPodFromStarting) {
  ASSERT_TRUE(startService(client_, service_));
  json pod = deployment()["spec"]["template"];
  pod["metadata"]["name"] = "imdb-serve-x";
  api_.put(podAt("imdb-serve-x"), pod);
  kubelet_.bind("imdb-serve-x", "node-1");
  kubelet_.wait("imdb-serve-x", "ErrImagePull", "no such image");
  EXPECT_THAT(view().problem, HasSubstr("no such image"));
}

TEST_F(ClusterServiceTest, ALaterRunTakesItsPlaceAndAloneStopsIt) {
  ASSERT_TRUE(startService(client_, service_));
  const ClusterPlace earlier = service_.place;
  service_.place.folder = "b";
  ASSERT_TRUE(startService(client_, service_));
  EXPECT_FALSE(viewService(client_, earlier, kName)->there);
  ASSERT_TRUE(stopService(client_, earlier, kName));
  EXPECT_TRUE(api_.has(at(kube::kinds::kDeployments, kName)));
  ASSERT_TRUE(stopService(client_, service_.place, kName));
  EXPECT_FALSE(api_.has(at(kube::kinds::kDeployments, kName)));
  EXPECT_FALSE(api_.has(at(kube::kinds::kServices, kName)));
  EXPECT_TRUE(stopService(client_, service_.place, kName)) << "also if it is gone";
}

TEST_F(ClusterServiceTest, WhereItAnswersIsToldAsFarAsItIsKnown) {
  ASSERT_TRUE(startService(client_, service_));
  becomes({{"observedGeneration", 2}, {"updatedReplicas", 1}, {"availableReplicas", 1}});
  json object = service();
  object["spec"]["clusterIP"] = "10.0.0.7";
  api_.put(at(kube::kinds::kServices, kName), object);
  EXPECT_THAT(view().address, HasSubstr("http://10.0.0.7/ inside the cluster"));
  object["status"]["loadBalancer"]["ingress"] = json::array({{{"ip", "192.0.2.1"}}});
  api_.put(at(kube::kinds::kServices, kName), object);
  EXPECT_EQ(view().address, "http://192.0.2.1/");
}

TEST(ServiceNames, AreShortEnoughForAHostName) {
  EXPECT_EQ(serviceName("imdb", "serve"), "imdb-serve");
  const std::string longest(60, 'a');
  EXPECT_LE(serviceName(longest, "serve").size(), 63u);
  EXPECT_NE(serviceName(longest, "serve"), serviceName(longest, "other"));
}

}  // namespace
}  // namespace dure::kubernetes
