// Stands in for the gloo backend where libtorch was built without Gloo.
#include <lockstep/base/error.h>
#include <lockstep/comm/backend.h>

namespace lockstep::detail {

std::unique_ptr<Backend> make_gloo_backend(const BackendContext&) {
  fail(ErrorKind::unsupported, "connect",
       "this libtorch was built without Gloo, so there is no gloo backend; use shm on one host, or mpi");
}

}  // namespace lockstep::detail
