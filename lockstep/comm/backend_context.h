// The constructor arguments of a backend, and the factory of each backend. A factory that this build lacks is a stub
// that throws Error(unsupported) saying how to get it.
#pragma once

#include <lockstep/comm/backend.h>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::detail {

struct BackendContext {
  c10::intrusive_ptr<c10d::Store> store;  ///< private to this group (prefixed); for the rendezvous only, not for data
  int rank = 0;                           ///< in the group
  int size = 1;
  std::vector<int> world_ranks;  ///< by group rank
  std::string name;              ///< of the group, unique in the job
  std::chrono::milliseconds start_timeout{};
  std::chrono::milliseconds timeout{};
  bool one_host = true;    ///< all ranks of the group share a machine and its network
  std::vector<int> hosts;  ///< by group rank: which host it is on, counted from 0 in the order of their first ranks
  std::string network = "gloo";  ///< for hierarchy: the backend between hosts
  std::string bind_address;      ///< the address at which the others reach this host; empty: not known
  /// For backends that wait by polling: throws Error(peer_lost) when one of the group ranks `waited_for` has ended or
  /// any rank of the job has given up. Costs about a round trip to the store, so call it every 50 ms of waiting or so.
  /// Name only ranks whose part is still missing: one that did its part may have ended in good order.
  std::function<void(const std::vector<int>& waited_for)> throw_if_lost;
  /// The same during the rendezvous, when no rank can have ended in good order.
  std::function<void(const std::vector<int>& waited_for)> while_meeting;
  /// Only the second check: throws Error(peer_lost) with the reason of the rank that has given up. For waits that
  /// detect ended ranks in another way.
  std::function<void()> throw_if_failed;
};

std::unique_ptr<Backend> make_self_backend(const BackendContext& context);
std::unique_ptr<Backend> make_gloo_backend(const BackendContext& context);
std::unique_ptr<Backend> make_mpi_backend(const BackendContext& context);
std::unique_ptr<Backend> make_shm_backend(const BackendContext& context);
std::unique_ptr<Backend> make_hierarchy_backend(const BackendContext& context);

/// Two backends of the same ranks, each with its own order of collectives. Only the first allocates; both use that
/// memory in place.
std::pair<std::unique_ptr<Backend>, std::unique_ptr<Backend>> make_shm_pair(const BackendContext& context);

}  // namespace lockstep::detail
