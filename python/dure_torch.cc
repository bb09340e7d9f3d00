// The Python module: importing it makes the backend "dure" known to torch.distributed.
//
//   import dure_torch
//   torch.distributed.init_process_group("dure")

#include <torch/csrc/utils/pybind.h>

#include <pybind11/chrono.h>

#include "process_group.h"

namespace {

using dure::DureProcessGroup;
using dure::Operation;
using WorkPointer = DureProcessGroup::WorkPointer;
using Tensors = DureProcessGroup::Tensors;
using Unlocked = pybind11::call_guard<pybind11::gil_scoped_release>;

// torch's own classes know all that these have, but go through torch's dispatcher, which a small
// sum takes as long for as for itself. The calls that a training step waits for go straight.
void declareClasses(pybind11::module_& module) {
  pybind11::class_<DureProcessGroup, c10d::ProcessGroup, c10::intrusive_ptr<DureProcessGroup>>(
      module, "ProcessGroup")
      .def(
          "allreduce",
          [](DureProcessGroup& self, Tensors tensors, const c10d::AllreduceOptions& options) {
            return self.allreduce(tensors, options);
          },
          pybind11::arg("tensors"), pybind11::arg("opts") = c10d::AllreduceOptions(), Unlocked())
      .def(
          "allreduce",
          [](DureProcessGroup& self, Tensors tensors, const c10d::ReduceOp& op) {
            return self.allreduce(tensors, {.reduceOp = op});
          },
          pybind11::arg("tensors"), pybind11::arg("op") = c10d::ReduceOp::SUM, Unlocked())
      .def(
          "allreduce",
          [](DureProcessGroup& self, const at::Tensor& tensor, const c10d::ReduceOp& op) {
            Tensors tensors{tensor};
            return self.allreduce(tensors, {.reduceOp = op});
          },
          pybind11::arg("tensor"), pybind11::arg("op") = c10d::ReduceOp::SUM, Unlocked());

  pybind11::class_<Operation, c10d::Work, c10::intrusive_ptr<Operation>>(module, "Work")
      .def("wait",
           [](Operation& self) {
             if (self.isDone()) return true;
             const pybind11::gil_scoped_release unlocked;
             return self.wait();
           })
      .def("wait", &Operation::wait, pybind11::arg("timeout"), Unlocked());
}

}  // namespace

PYBIND11_MODULE(dure_torch, module) {
  module.doc() = "torch.distributed's backend 'dure': shared memory within a host";
  module.attr("__version__") = DURE_VERSION;
  auto distributed = pybind11::module_::import("torch.distributed");
  declareClasses(module);
  distributed.attr("Backend").attr("register_backend")(
      "dure", pybind11::cpp_function(&dure::createProcessGroup,
                                     pybind11::call_guard<pybind11::gil_scoped_release>()));
  module.def(
      "traffic",
      [](const c10::intrusive_ptr<c10d::ProcessGroup>& group) {
        const auto* ours = dynamic_cast<const dure::DureProcessGroup*>(group.get());
        TORCH_CHECK(ours, "not a process group of the backend 'dure'");
        const dure::Traffic traffic = ours->traffic();
        pybind11::dict result;
        result["hosts"] = ours->hosts();
        result["network_bytes"] = traffic.network_bytes;
        result["memory_bytes"] = traffic.memory_bytes;
        result["operations"] = traffic.operations;
        result["in_place"] = traffic.in_place;
        result["waited"] = static_cast<double>(traffic.waited.count()) / 1000;
        return result;
      },
      "What a process group has cost this process so far.");
}
