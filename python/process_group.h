#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "group/join.h"
#include "registered_storages.h"
#include "runner.h"
#include "tensors.h"

namespace dure::python {

// torch.distributed's backend "dure": collectives through a Group, the rest through Gloo.
//
// On one host an operation is done when the call returns; over several they are done in order by a
// thread of the group. Failures come out of wait(), as with other backends.
class DureProcessGroup : public c10d::ProcessGroup {
 public:
  using WorkPointer = c10::intrusive_ptr<c10d::Work>;
  using Tensors = std::vector<at::Tensor>;

  DureProcessGroup(std::unique_ptr<group::TwoLevelGroup> group, group::StoreJoin join);
  ~DureProcessGroup() override;

  const std::string getBackendName() const override { return "dure"; }

  WorkPointer broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  WorkPointer allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  // The same of one tensor, and not of bits.
  WorkPointer allreduceOne(at::Tensor tensor, const c10d::ReduceOp& operation);
  WorkPointer allreduce_coalesced(Tensors& tensors,
                                  const c10d::AllreduceCoalescedOptions& options) override;
  WorkPointer reduce(Tensors& tensors, const c10d::ReduceOptions& options) override;
  WorkPointer allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                        const c10d::AllgatherOptions& options) override;
  WorkPointer _allgather_base(at::Tensor& output, at::Tensor& input,
                              const c10d::AllgatherOptions& options) override;
  WorkPointer allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                                  const c10d::AllgatherOptions& options) override;
  WorkPointer reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                             const c10d::ReduceScatterOptions& options) override;
  WorkPointer _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                   const c10d::ReduceScatterOptions& options) override;
  WorkPointer barrier(const c10d::BarrierOptions& options) override;

  // Through Gloo.
  WorkPointer gather(std::vector<Tensors>& outputs, Tensors& inputs,
                     const c10d::GatherOptions& options) override;
  WorkPointer scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                      const c10d::ScatterOptions& options) override;
  WorkPointer alltoall_base(at::Tensor& output, at::Tensor& input,
                            std::vector<int64_t>& output_sizes, std::vector<int64_t>& input_sizes,
                            const c10d::AllToAllOptions& options) override;
  WorkPointer alltoall(Tensors& outputs, Tensors& inputs,
                       const c10d::AllToAllOptions& options) override;
  WorkPointer send(Tensors& tensors, int to, int tag) override;
  WorkPointer recv(Tensors& tensors, int from, int tag) override;

  group::Traffic traffic() const { return group_->traffic(); }
  int hosts() const { return group_->hosts(); }

 private:
  // Does `body(outputs)`, which is a Status, now or in the thread of the group.
  template <typename Body>
  WorkPointer run(c10d::OpType type, Tensors outputs, Body body);
  Status reduceNow(const at::Tensor& tensor, const c10d::ReduceOp& operation);
  Status allGatherNow(const Tensors& outputs, const at::Tensor& input);
  Status reduceScatterNow(at::Tensor output, const at::Tensor& inputs,
                          const c10d::ReduceOp& operation);
  // Of all ranks, made when they first need it.
  c10d::ProcessGroupGloo& gloo();
  // Of this rank and another: those two only have to come.
  c10d::ProcessGroupGloo& pair(int other);
  c10::intrusive_ptr<c10d::ProcessGroupGloo> makeGloo(const std::string& prefix, int rank,
                                                      int size);

  const group::StoreJoin join_;
  const std::unique_ptr<group::TwoLevelGroup> group_;
  Streams streams_;  // used where operations are done, as is the next
  RegisteredStorages storages_;
  std::mutex gloo_mutex_;
  c10::intrusive_ptr<c10d::ProcessGroupGloo> gloo_;
  std::map<int, c10::intrusive_ptr<c10d::ProcessGroupGloo>> pairs_;
  Runner runner_;  // the last, so that its thread ends before what it uses
};

// What torch calls to make one. Throws if the group does not come together.
c10::intrusive_ptr<c10d::ProcessGroup> createProcessGroup(
    const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
    const std::chrono::duration<float>& timeout);

}  // namespace dure::python
