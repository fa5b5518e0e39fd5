// Stands in for the gloo backend where libtorch was built without Gloo, or with a version that Lockstep does not
// support.
#include <lockstep/base/error.h>
#include <lockstep/comm/backend.h>

namespace lockstep::detail {

std::unique_ptr<Backend> make_gloo_backend(const BackendContext&) {
  fail(ErrorKind::unsupported, "connect",
       "this Lockstep has no gloo backend, because its libtorch has no Gloo that it supports; use shm on one host, or "
       "mpi, or tls");
}

}  // namespace lockstep::detail
