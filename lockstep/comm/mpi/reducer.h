// Reductions as messages of MPI, in the order of the sum tree. MPI's own order depends on the library and its settings.
#pragma once

#include <lockstep/comm/backend.h>
#include <lockstep/comm/mpi/runtime.h>
#include <lockstep/comm/reduction/network_reduction.h>

#include <functional>
#include <memory>
#include <vector>

namespace lockstep::detail::mpi {

class MpiReducer {
 public:
  /// Collective over the group; messages of reductions have their own communicator.
  explicit MpiReducer(const BackendContext& context);

  /// All ranks call it in the same order. `kept`, the memory of `call`, is held until completion. `look_around` as in
  /// `poll`.
  Backend::Pending start(NetworkCall call, std::vector<at::Tensor> kept, std::function<void()> look_around);

 private:
  std::shared_ptr<const Communicator> comm_;
  int next_tag_ = 0;
};

}  // namespace lockstep::detail::mpi
