// Stands in for the mpi backend where this build has no MPI.
#include <lockstep/base/error.h>
#include <lockstep/comm/backend.h>
#include <lockstep/comm/mpi/exchange.h>

namespace lockstep::detail {
namespace {

[[noreturn]] void fail_without_mpi() {
  fail(ErrorKind::unsupported, "connect",
       "this Lockstep was built without MPI; install one (Debian: libopenmpi-dev) and build with "
       "-DLOCKSTEP_WITH_MPI=ON, or use another backend and launcher");
}

}  // namespace

std::unique_ptr<Backend> make_mpi_backend(const BackendContext&) { fail_without_mpi(); }

namespace mpi {

void require_same(const World&) { fail_without_mpi(); }

bool all_on_one_host(std::chrono::milliseconds) { fail_without_mpi(); }

MpiEndpoint broadcast_from_rank_0(const MpiEndpoint&, std::chrono::milliseconds) { fail_without_mpi(); }

}  // namespace mpi
}  // namespace lockstep::detail
