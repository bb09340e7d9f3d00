// The Python module: importing it makes the backend "dure" known to torch.distributed.
//
//   import dure_torch
//   torch.distributed.init_process_group("dure")

#include <torch/csrc/utils/pybind.h>

#include <pybind11/chrono.h>

#include "classes.h"
#include "page_allocator.h"
#include "process_group.h"

PYBIND11_MODULE(dure_torch, module) {
  module.doc() = "torch.distributed's backend 'dure': shared memory within a host";
  module.attr("__version__") = DURE_VERSION;
  auto distributed = pybind11::module_::import("torch.distributed");
  dure::python::declareClasses(module);
  dure::python::beginTensorsAtPages();
  distributed.attr("Backend").attr("register_backend")(
      "dure", pybind11::cpp_function(&dure::python::createProcessGroup,
                                     pybind11::call_guard<pybind11::gil_scoped_release>()));
  module.def(
      "traffic",
      [](const c10::intrusive_ptr<c10d::ProcessGroup>& group) {
        const auto* ours = dynamic_cast<const dure::python::DureProcessGroup*>(group.get());
        TORCH_CHECK(ours, "not a process group of the backend 'dure'");
        const dure::group::Traffic traffic = ours->traffic();
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
