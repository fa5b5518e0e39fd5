// The Python module lockstep._backend: the class of the backend, and what it was built for.
#include <apps/python/launcher.h>
#include <apps/python/process_group.h>

#include <lockstep/base/environment.h>
#include <lockstep/global/global_tensor.h>
#include <lockstep/version.h>

#include <pybind11/chrono.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/version.h>

#include <chrono>
#include <string>

namespace lockstep::python {
namespace {

using Store = c10::intrusive_ptr<c10d::Store>;

/// Python changes the environment only while it holds its lock, and the thread that connects does not.
c10::intrusive_ptr<LockstepBackend> make_backend(const Store& store, int rank, int size,
                                                 std::chrono::milliseconds timeout, const std::string& name) {
  keep_environment();
  const pybind11::gil_scoped_release unlocked;
  TORCH_CHECK_VALUE(rank >= 0 && rank < size, "lockstep: rank ", rank, " is not in a group of ", size,
                    " ranks; RANK must be from 0 to WORLD_SIZE - 1");
  Member member{store, rank, size, next_epoch(*store, rank), timeout, name};
  announce(member);
  return c10::make_intrusive<LockstepBackend>(member);
}

}  // namespace
}  // namespace lockstep::python

PYBIND11_MODULE(_backend, module) {
  using lockstep::python::LockstepBackend;
  pybind11::module_::import("torch._C._distributed_c10d");  // has the base class
  using Unlocked = pybind11::call_guard<pybind11::gil_scoped_release>;
  pybind11::class_<LockstepBackend, c10d::Backend, c10::intrusive_ptr<LockstepBackend>>(module, "Backend")
      .def(pybind11::init(&lockstep::python::make_backend), pybind11::arg("store"), pybind11::arg("rank"),
           pybind11::arg("size"), pybind11::arg("timeout"), pybind11::arg("name"))
      .def("abort", &LockstepBackend::abort, Unlocked())
      .def("shutdown", &LockstepBackend::shutdown, Unlocked())
      .def_property_readonly("closed", &LockstepBackend::closed);
  module.def("variables_of_launcher",
             [] { return lockstep::python::variables_of_launcher(lockstep::current_environment()); });
  module.attr("built_for_torch") = TORCH_VERSION;
  lockstep::leave_out_global_device();  // workers of a DataLoader are forked, and may call backward()
}
