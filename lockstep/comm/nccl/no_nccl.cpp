// Stands in for the nccl backend where libtorch was built without CUDA, or NCCL's header was not found beside it.
#include <lockstep/base/error.h>
#include <lockstep/comm/backend.h>

namespace lockstep::detail {

std::unique_ptr<Backend> make_nccl_backend(const BackendContext&) {
  fail(ErrorKind::unsupported, "connect",
       "this Lockstep was built without NCCL; build with a libtorch for CUDA (docs/libtorch.md), or use a backend for "
       "the "
       "CPU");
}

}  // namespace lockstep::detail
