// The release of Python's lock around calls that wait for other threads.
#pragma once

#include <torch/csrc/python_headers.h>

namespace lockstep::python {

/// While it exists, this thread does not hold Python's lock, so that other threads can release tensors that Python
/// owns. For threads that perhaps hold it.
class WithoutPythonLock {
 public:
  WithoutPythonLock() : state_(Py_IsInitialized() != 0 && PyGILState_Check() != 0 ? PyEval_SaveThread() : nullptr) {}
  WithoutPythonLock(const WithoutPythonLock&) = delete;
  WithoutPythonLock& operator=(const WithoutPythonLock&) = delete;
  ~WithoutPythonLock() {
    if (state_ != nullptr) PyEval_RestoreThread(state_);
  }

 private:
  PyThreadState* state_;
};

}  // namespace lockstep::python
