#include "classes.h"

#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>

#include <utility>
#include <vector>

#include "process_group.h"

// pybind looks every type up in its tables and tries every form of a method, and torch's dispatcher
// comes after that: together they take as long as a small all-reduce. The methods here are called
// by the interpreter as its own are, know the one form that torch.distributed uses, and leave the
// others to torch.
namespace dure::python {
namespace {

// Of the objects whose values are taken without asking pybind.
PyTypeObject* group_type = nullptr;
PyTypeObject* options_type = nullptr;
PyTypeObject* work_type = nullptr;

// Of an object that is exactly of the type of `Value`.
template <typename Value>
Value& valueOf(PyObject* object) {
  auto* instance = reinterpret_cast<pybind11::detail::instance*>(object);
  return *static_cast<Value*>(instance->get_value_and_holder().value_ptr());
}

// How a method is called: `count` arguments, then one for each of the names, if there are any.
struct Arguments {
  PyObject* const* values;
  Py_ssize_t count;
  PyObject* names;
};

// The same method of torch's class.
template <typename Base>
PyObject* callBase(const char* method, PyObject* self, const Arguments& arguments) {
  const Py_ssize_t named = arguments.names ? PyTuple_GET_SIZE(arguments.names) : 0;
  std::vector<PyObject*> all{self};
  all.insert(all.end(), arguments.values, arguments.values + arguments.count + named);
  const pybind11::object of_base = pybind11::type::of<Base>().attr(method);
  return PyObject_Vectorcall(of_base.ptr(), all.data(),
                             static_cast<std::size_t>(arguments.count) + 1, arguments.names);
}

// The tensor of a list of one; otherwise nothing.
PyObject* onlyTensorOf(PyObject* list) {
  if (!PyList_CheckExact(list) || PyList_GET_SIZE(list) != 1) return nullptr;
  PyObject* tensor = PyList_GET_ITEM(list, 0);
  return THPVariable_Check(tensor) ? tensor : nullptr;
}

// allreduce([tensor], options)
PyObject* allreduce(PyObject* self, PyObject* const* values, Py_ssize_t count, PyObject* names) {
  HANDLE_TH_ERRORS
  const bool usual =
      count == 2 && !names && Py_TYPE(self) == group_type && Py_TYPE(values[1]) == options_type;
  PyObject* tensor = usual ? onlyTensorOf(values[0]) : nullptr;
  if (tensor) {
    const c10d::ReduceOp operation = valueOf<c10d::AllreduceOptions>(values[1]).reduceOp;
    if (!isBitwise(operation)) {
      auto& group = valueOf<DureProcessGroup>(self);
      at::Tensor unpacked = THPVariable_Unpack(tensor);
      DureProcessGroup::WorkPointer work;
      {
        const pybind11::gil_scoped_release unlocked;
        work = group.allreduceOne(std::move(unpacked), operation);
      }
      return pybind11::cast(std::move(work)).release().ptr();
    }
  }
  return callBase<c10d::ProcessGroup>("allreduce", self, {values, count, names});
  END_HANDLE_TH_ERRORS
}

// wait()
PyObject* wait(PyObject* self, PyObject* const* values, Py_ssize_t count, PyObject* names) {
  HANDLE_TH_ERRORS
  const bool usual = count == 0 && !names && Py_TYPE(self) == work_type;
  if (usual && valueOf<Operation>(self).isDone()) Py_RETURN_TRUE;
  return callBase<c10d::Work>("wait", self, {values, count, names});
  END_HANDLE_TH_ERRORS
}

using Method = PyObject* (*)(PyObject*, PyObject* const*, Py_ssize_t, PyObject*);

// `definition` stays as long as the type does.
void addMethod(PyTypeObject* type, PyMethodDef& definition) {
  const auto method =
      pybind11::reinterpret_steal<pybind11::object>(PyDescr_NewMethod(type, &definition));
  if (!method) throw pybind11::error_already_set();
  pybind11::handle(reinterpret_cast<PyObject*>(type)).attr(definition.ml_name) = method;
}

PyMethodDef definitionOf(const char* name, Method method) {
  // Python tells by the flags what kind of function it is.
  return {name, reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(method)),
          METH_FASTCALL | METH_KEYWORDS, nullptr};
}

PyTypeObject* typeOf(const pybind11::handle& type) {
  return reinterpret_cast<PyTypeObject*>(type.ptr());
}

}  // namespace

void declareClasses(pybind11::module_& module) {
  options_type = typeOf(pybind11::type::of<c10d::AllreduceOptions>());
  group_type = typeOf(
      pybind11::class_<DureProcessGroup, c10d::ProcessGroup, c10::intrusive_ptr<DureProcessGroup>>(
          module, "ProcessGroup"));
  work_type = typeOf(
      pybind11::class_<Operation, c10d::Work, c10::intrusive_ptr<Operation>>(module, "Work"));
  static PyMethodDef of_group = definitionOf("allreduce", allreduce);
  static PyMethodDef of_work = definitionOf("wait", wait);
  addMethod(group_type, of_group);
  addMethod(work_type, of_work);
}

}  // namespace dure::python
