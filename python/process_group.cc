#include "process_group.h"

#include <torch/csrc/utils/pybind.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <cstdlib>
#include <utility>

#include "group/host_identity.h"

namespace dure::python {
namespace {

using WorkPointer = DureProcessGroup::WorkPointer;
using Tensors = DureProcessGroup::Tensors;

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

group::Compression compressionFromEnvironment() {
  const std::string wire = environment("DURE_WIRE");
  if (wire.empty() || wire == "fp32") return group::Compression::kNone;
  if (wire == "bf16") return group::Compression::kBFloat16;
  TORCH_CHECK(wire == "fp16", "DURE_WIRE must be fp32, bf16 or fp16, not '", wire, "'");
  return group::Compression::kFloat16;
}

const at::Tensor& onlyOf(const Tensors& tensors) {
  TORCH_CHECK(tensors.size() == 1, "dure: one tensor at a time");
  return tensors[0];
}

const Tensors& onlyOf(const std::vector<Tensors>& lists, int size) {
  TORCH_CHECK(lists.size() == 1 && lists[0].size() == static_cast<std::size_t>(size),
              "dure: one list of as many tensors as ranks");
  return lists[0];
}

}  // namespace

DureProcessGroup::DureProcessGroup(std::unique_ptr<group::TwoLevelGroup> group,
                                   group::StoreJoin join)
    : c10d::ProcessGroup(join.rank, join.size),
      join_(std::move(join)),
      group_(std::move(group)),
      runner_(group_->hosts() > 1) {}

DureProcessGroup::~DureProcessGroup() {
  // The thread may have to drop tensors that Python knows, which takes the lock of Python.
  std::optional<pybind11::gil_scoped_release> unlocked;
  if (Py_IsInitialized() != 0 && PyGILState_Check() != 0) unlocked.emplace();
  runner_.finish();
}

template <typename Body>
WorkPointer DureProcessGroup::run(c10d::OpType type, Tensors outputs, Body body) {
  auto operation = c10::make_intrusive<Operation>(rank_, type, std::move(outputs));
  runner_.run(operation, std::move(body));
  return operation;
}

Status DureProcessGroup::reduceNow(const at::Tensor& tensor, const c10d::ReduceOp& operation) {
  const TorchReduction how = reductionOf(tensor, operation);
  Flat flat(tensor);
  if (group_->hasNeighbours()) storages_.beforeAllReduce(tensor);
  std::optional<int> stream;
  if (group_->hosts() > 1 && join_.compression != group::Compression::kNone) {
    if (const auto named = streams_.streamOf(tensor)) {
      stream = named->stream;
      if (named->forgotten) group_->forget(*named->forgotten);
    }
  }
  if (auto status = group_->allReduce(flat.bytes(), how.number, how.reduction, stream); !status) {
    return status;
  }
  if (how.average) flat.tensor().div_(size_);
  flat.done();
  return {};
}

WorkPointer DureProcessGroup::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  if (isBitwise(options.reduceOp)) return gloo().allreduce(tensors, options);
  return allreduceOne(onlyOf(tensors), options.reduceOp);
}

WorkPointer DureProcessGroup::allreduceOne(at::Tensor tensor, const c10d::ReduceOp& operation) {
  return run(
      c10d::OpType::ALLREDUCE, {std::move(tensor)},
      [this, operation](const Tensors& outputs) { return reduceNow(outputs[0], operation); });
}

WorkPointer DureProcessGroup::allreduce_coalesced(Tensors& tensors,
                                                  const c10d::AllreduceCoalescedOptions& options) {
  return run(c10d::OpType::ALLREDUCE_COALESCED, tensors,
             [this, operation = options.reduceOp](const Tensors& outputs) {
               for (const at::Tensor& tensor : outputs) {
                 if (auto status = reduceNow(tensor, operation); !status) return status;
               }
               return Status();
             });
}

WorkPointer DureProcessGroup::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  return run(c10d::OpType::REDUCE, {onlyOf(tensors)},
             [this, operation = options.reduceOp, root = options.rootRank](const Tensors& outputs) {
               // Others keep what they have.
               return reduceNow(root == rank_ ? outputs[0] : outputs[0].clone(), operation);
             });
}

WorkPointer DureProcessGroup::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  return run(c10d::OpType::BROADCAST, {onlyOf(tensors)},
             [this, root = static_cast<int>(options.rootRank)](const Tensors& outputs) {
               Flat flat(outputs[0]);
               auto status = group_->broadcast(flat.bytes(), root);
               if (status) flat.done();
               return status;
             });
}

Status DureProcessGroup::allGatherNow(const Tensors& outputs, const at::Tensor& input) {
  Flat mine(input);
  at::Tensor all = at::empty({size_, input.numel()}, mine.tensor().options());
  if (auto status = group_->allGather(mine.bytes(), Flat(all).bytes()); !status) return status;
  for (std::size_t rank = 0; rank < outputs.size(); ++rank) {
    outputs[rank].copy_(all[static_cast<std::int64_t>(rank)].view(input.sizes()));
  }
  return {};
}

WorkPointer DureProcessGroup::allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                                        const c10d::AllgatherOptions&) {
  return run(
      c10d::OpType::ALLGATHER, onlyOf(outputs, size_),
      [this, input = onlyOf(inputs)](const Tensors& list) { return allGatherNow(list, input); });
}

WorkPointer DureProcessGroup::_allgather_base(at::Tensor& output, at::Tensor& input,
                                              const c10d::AllgatherOptions&) {
  TORCH_CHECK(output.numel() == input.numel() * size_ && output.dtype() == input.dtype(),
              "dure: the output must have room for the input of every rank");
  return run(c10d::OpType::_ALLGATHER_BASE, {output}, [this, input](const Tensors& filled) {
    Flat mine(input);
    Flat all(filled[0]);
    auto status = group_->allGather(mine.bytes(), all.bytes());
    if (status) all.done();
    return status;
  });
}

WorkPointer DureProcessGroup::allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                                                  const c10d::AllgatherOptions&) {
  // Outputs are one list for each rank here, of what inputs are a list of.
  TORCH_CHECK(outputs.size() == static_cast<std::size_t>(size_), "dure: one list for each rank");
  for (const Tensors& list : outputs) {
    TORCH_CHECK(list.size() == inputs.size(), "dure: lists as long as the inputs");
  }
  return run(c10d::OpType::ALLGATHER_COALESCED, inputs, [this, outputs](const Tensors& given) {
    for (std::size_t i = 0; i < given.size(); ++i) {
      Tensors places;
      for (const Tensors& list : outputs) places.push_back(list[i]);
      if (auto status = allGatherNow(places, given[i]); !status) return status;
    }
    return Status();
  });
}

Status DureProcessGroup::reduceScatterNow(at::Tensor output, const at::Tensor& inputs,
                                          const c10d::ReduceOp& operation) {
  const TorchReduction how = reductionOf(output, operation);
  Flat mine(output);
  Flat all(inputs);
  if (group_->hosts() == 1) {
    if (auto status = group_->reduceScatter(all.bytes(), mine.bytes(), how.number, how.reduction);
        !status) {
      return status;
    }
  } else {
    at::Tensor reduced = all.tensor().clone();
    if (auto status = group_->allReduce(Flat(reduced).bytes(), how.number, how.reduction);
        !status) {
      return status;
    }
    mine.tensor().copy_(reduced.view({size_, -1})[rank_].view(output.sizes()));
  }
  if (how.average) mine.tensor().div_(size_);
  mine.done();
  return {};
}

WorkPointer DureProcessGroup::reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                             const c10d::ReduceScatterOptions& options) {
  return run(
      c10d::OpType::REDUCE_SCATTER, {onlyOf(outputs)},
      [this, list = onlyOf(inputs, size_), operation = options.reduceOp](const Tensors& filled) {
        Tensors flat;
        for (const at::Tensor& input : list) flat.push_back(input.reshape({-1}));
        return reduceScatterNow(filled[0], at::cat(flat), operation);
      });
}

WorkPointer DureProcessGroup::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                                   const c10d::ReduceScatterOptions& options) {
  TORCH_CHECK(input.numel() == output.numel() * size_ && output.dtype() == input.dtype(),
              "dure: the input must have a part for every rank");
  return run(c10d::OpType::_REDUCE_SCATTER_BASE, {output},
             [this, input, operation = options.reduceOp](const Tensors& filled) {
               return reduceScatterNow(filled[0], input, operation);
             });
}

WorkPointer DureProcessGroup::barrier(const c10d::BarrierOptions&) {
  return run(c10d::OpType::BARRIER, {}, [this](const Tensors&) { return group_->barrier(); });
}

WorkPointer DureProcessGroup::gather(std::vector<Tensors>& outputs, Tensors& inputs,
                                     const c10d::GatherOptions& options) {
  return gloo().gather(outputs, inputs, options);
}

WorkPointer DureProcessGroup::scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                      const c10d::ScatterOptions& options) {
  return gloo().scatter(outputs, inputs, options);
}

WorkPointer DureProcessGroup::alltoall_base(at::Tensor& output, at::Tensor& input,
                                            std::vector<int64_t>& output_sizes,
                                            std::vector<int64_t>& input_sizes,
                                            const c10d::AllToAllOptions& options) {
  return gloo().alltoall_base(output, input, output_sizes, input_sizes, options);
}

WorkPointer DureProcessGroup::alltoall(Tensors& outputs, Tensors& inputs,
                                       const c10d::AllToAllOptions& options) {
  TORCH_CHECK(inputs.size() == static_cast<std::size_t>(size_) && outputs.size() == inputs.size(),
              "dure: as many tensors as ranks");
  // Gloo knows the form with one tensor of all parts only.
  Tensors flat;
  std::vector<int64_t> input_sizes;
  std::vector<int64_t> output_sizes;
  int64_t total = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    flat.push_back(inputs[i].reshape({-1}));
    input_sizes.push_back(inputs[i].numel());
    output_sizes.push_back(outputs[i].numel());
    total += outputs[i].numel();
  }
  at::Tensor input = at::cat(flat);
  at::Tensor output = at::empty({total}, input.options());
  std::vector<int64_t> taken = output_sizes;  // Gloo takes the sizes for itself
  gloo().alltoall_base(output, input, taken, input_sizes, options)->wait();
  const Tensors parts = output.split_with_sizes(output_sizes);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    outputs[i].copy_(parts[i].view(outputs[i].sizes()));
  }
  auto operation = c10::make_intrusive<Operation>(rank_, c10d::OpType::ALLTOALL, outputs);
  operation->complete({});
  return operation;
}

WorkPointer DureProcessGroup::send(Tensors& tensors, int to, int tag) {
  return pair(to).send(tensors, rank_ < to ? 1 : 0, tag);
}

WorkPointer DureProcessGroup::recv(Tensors& tensors, int from, int tag) {
  return pair(from).recv(tensors, rank_ < from ? 1 : 0, tag);
}

c10d::ProcessGroupGloo& DureProcessGroup::gloo() {
  const std::lock_guard lock(gloo_mutex_);
  if (!gloo_) gloo_ = makeGloo("gloo", rank_, size_);
  return *gloo_;
}

c10d::ProcessGroupGloo& DureProcessGroup::pair(int other) {
  TORCH_CHECK(other >= 0 && other < size_ && other != rank_, "dure: no rank ", other,
              " to exchange with");
  const std::lock_guard lock(gloo_mutex_);
  auto& group = pairs_[other];
  if (!group) {
    const auto name = c10::str("pair/", std::min(rank_, other), "/", std::max(rank_, other));
    group = makeGloo(name, rank_ < other ? 0 : 1, 2);
  }
  return *group;
}

c10::intrusive_ptr<c10d::ProcessGroupGloo> DureProcessGroup::makeGloo(const std::string& prefix,
                                                                      int rank, int size) {
  const std::string address = group::localAddressTowards(join_.address);
  auto options = c10d::ProcessGroupGloo::Options::create(join_.timeout);
  options->devices.push_back(address.empty()
                                 ? c10d::ProcessGroupGloo::createDefaultDevice()
                                 : c10d::ProcessGroupGloo::createDeviceForHostname(address));
  return c10::make_intrusive<c10d::ProcessGroupGloo>(
      c10::make_intrusive<c10d::PrefixStore>(prefix, join_.store), rank, size, std::move(options));
}

c10::intrusive_ptr<c10d::ProcessGroup> createProcessGroup(
    const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
    const std::chrono::duration<float>& timeout) {
  group::StoreJoin join{.store = c10::make_intrusive<c10d::PrefixStore>("dure", store),
                        .rank = rank,
                        .size = size,
                        .address = environment("MASTER_ADDR"),
                        .compression = compressionFromEnvironment(),
                        .timeout = std::chrono::duration_cast<Duration>(timeout)};
  auto group = group::joinThroughStore(join);
  TORCH_CHECK(group, "dure: ", group.error().message());
  return c10::make_intrusive<DureProcessGroup>(std::move(*group), std::move(join));
}

}  // namespace dure::python
