// The number of threads of libtorch, OpenMP and the loaded BLAS (OpenBLAS, MKL, BLIS), set by functions from dlsym.
#include <lockstep/base/error.h>
#include <lockstep/kernels/tuning.h>

#include <ATen/Parallel.h>
#include <dlfcn.h>

#include <cstdint>

namespace lockstep {
namespace {

/// A function of a loaded library, or nullptr. The BLAS is selected by the system at load time, not by the build.
template <typename Function>
Function* loaded(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_DEFAULT, name));
}

using SetInt = void(int);

void call_where_loaded(const char* name, int value) {
  if (auto* const set = loaded<SetInt>(name)) set(value);
}

void set_blas_threads(int threads) {
  call_where_loaded("openblas_set_num_threads", threads);
  call_where_loaded("openblas_set_num_threads64_", threads);
  call_where_loaded("MKL_Set_Dynamic", 0);
  call_where_loaded("MKL_Set_Num_Threads", threads);
  // BLIS takes a 64-bit integer.
  if (auto* const set = loaded<void(std::int64_t)>("bli_thread_set_num_threads")) set(threads);
}

void require_limit(int threads) {
  auto* const limit = loaded<int()>("omp_get_thread_limit");
  if (limit == nullptr || limit() >= threads) return;
  fail(ErrorKind::environment, "set_num_threads",
       "OMP_THREAD_LIMIT allows {} thread(s), and {} were requested; unset it, or request fewer (system.threads)",
       limit(), threads);
}

}  // namespace

void set_num_threads(int threads) {
  if (threads < 1) {
    fail(ErrorKind::invalid_argument, "set_num_threads", "there must be at least 1 thread, not {}", threads);
  }
  require_limit(threads);
  call_where_loaded("omp_set_dynamic", 0);  // OMP_DYNAMIC would make the number depend on the load
  at::set_num_threads(threads);
  set_blas_threads(threads);
}

}  // namespace lockstep
