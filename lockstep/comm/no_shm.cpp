// Stands in for the shm backend until it is here.
#include <lockstep/base/error.h>
#include <lockstep/comm/backend_context.h>

namespace lockstep::detail {

std::unique_ptr<Backend> make_shm_backend(const BackendContext&) {
  fail(ErrorKind::unsupported, "connect", "this build has no shm backend; use gloo");
}

}  // namespace lockstep::detail
