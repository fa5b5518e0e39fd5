// Reductions as messages of MPI. MPI's own add up in an order that depends on the library, its settings and the size.
#pragma once

#include <lockstep/comm/backend.h>
#include <lockstep/comm/mpi/communicator.h>
#include <lockstep/comm/network_reduction.h>

#include <functional>
#include <memory>
#include <vector>

namespace lockstep::detail::mpi {

class Reducer {
 public:
  /// Meets the others; messages of reductions have a communicator of their own.
  explicit Reducer(const BackendContext& context);

  /// Ranks call it in one order. `kept`, the memory of `call`, is alive until it is done. `look_around` as in `poll`.
  Backend::Pending start(NetworkCall call, std::vector<at::Tensor> kept, std::function<void()> look_around);

 private:
  std::shared_ptr<const Communicator> comm_;
  int next_tag_ = 0;
};

/// Takes all reductions of this process as far as they go: others may wait for this rank's next message in one while it
/// waits for something else. Returns at once.
void advance_reductions();

}  // namespace lockstep::detail::mpi
