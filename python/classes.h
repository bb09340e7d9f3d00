#pragma once

#include <torch/csrc/utils/pybind.h>

namespace dure::python {

// Makes the classes of a process group and of its operations known to Python. They are torch's own
// classes, with another way into the calls that a training step waits for.
void declareClasses(pybind11::module_& module);

}  // namespace dure::python
