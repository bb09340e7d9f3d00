#pragma once

#include <memory>

#include "backend/kubernetes/names.h"
#include "kube/client.h"
#include "runs/runs.h"

namespace dure::kubernetes {

// The runs of a namespace of a cluster.
class KubeRuns : public runs::Runs {
 public:
  // Of the namespace that the client was told of.
  explicit KubeRuns(std::unique_ptr<kube::KubeClient> client) : client_(std::move(client)) {}

  Result<std::vector<runs::RunView>> list() override;
  Result<runs::RunId> find(const std::string& text) override;
  Result<runs::RunView> read(const runs::RunId& id) override;
  Result<runs::RunView> follow(const runs::RunId& id, runs::Follower& follower,
                               const Wait& wait) override;
  Status logs(const runs::RunId& id, const runs::LogQuery& query, const runs::Lines& lines,
              const Wait& wait) override;
  Status askToStop(const runs::RunId& id, bool at_once) override;
  Result<runs::Stopped> stop(const runs::RunId& id, bool at_once, const Wait& wait) override;
  Status remove(const runs::RunId& id, bool force, const Wait& wait) override;
  Status fetch(const runs::RunId& id, const std::string& path, bundle::FileReceiver& files,
               const Wait& wait) override;

  Result<std::string> bringHome(const runs::RunId& id, const std::string& folder,
                                const Wait& wait) override;

  kube::KubeClient& client() { return *client_; }

 private:
  KubeRun runOf(const runs::RunId& id) const;
  Status end(const KubeRun& run, bool at_once, const Wait& wait);
  Status followLogs(const KubeRun& run, const runs::LogQuery& query, const runs::Lines& lines,
                    const Wait& wait);

  const std::unique_ptr<kube::KubeClient> client_;
};

}  // namespace dure::kubernetes
