// The table of backends: each with its name, the ranks that it can serve, the devices whose tensors it carries, and its
// factory. Names in settings, --help texts, errors and the configuration's allowed values come from here; so do the
// settings of a group, which name a backend, with the variables that replace them. What else a new backend needs:
// docs/architecture.md.
#pragma once

#include <lockstep/base/environment.h>
#include <lockstep/comm/group.h>

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::detail {

class Backend;
struct BackendContext;

struct BackendKind {
  /// The ranks of a group that the backend can join.
  enum class Serves { one_rank, one_host, any_hosts };

  /// The tensors that a backend carries. A backend for CUDA alone is used beside one for the CPU
  /// (BackendContext::beside).
  enum class Carries { cpu, cuda, both };

  std::string_view name;
  Serves serves;
  Carries carries;
  bool encrypts;     ///< with GroupOptions::encrypt, all data that leaves the host is encrypted
  bool own_devices;  ///< each rank needs a device of its own
  bool built;        ///< this build has it; else `make` is a stub that throws Error(unsupported) and says how to get it
  std::unique_ptr<Backend> (*make)(const BackendContext& context);  ///< collective over the group
};

/// All backends, including those that this build lacks.
std::span<const BackendKind> backends();

/// The row of `name`, or of the backend for which `name` is another word: "gloo" and "tls" are words for tcp.
/// Error(invalid_argument) for any other name, which includes "auto".
const BackendKind& backend_called(std::string_view name);

/// The values of the option `backend`: "auto", then the names in the table's order, then other words for them.
std::vector<std::string> backend_choices();

/// The backend for a group, given the number of each rank's host (BackendContext::hosts): self for one rank, else the
/// requested one. "auto" means shm when all ranks share a host, hierarchy when some do, and tcp when none do. On a
/// single host hierarchy becomes shm, the only engine that hierarchy would use. A backend for CUDA alone counts as
/// "auto", because this function chooses the backend for tensors on the CPU and for operations without a tensor.
/// Error(invalid_argument) for "self" with several ranks.
std::string_view choose_backend(std::string_view requested, const std::vector<int>& hosts);

/// The backend for tensors on CUDA devices: the requested one. "auto" means the first row that this build has and that
/// fits; a backend for the CPU means "staged", which uses it. self for one rank. Error(unsupported) where this build
/// has no backend for CUDA.
std::string_view choose_cuda_backend(std::string_view requested, const std::vector<int>& hosts, bool encrypt = false);

/// Whether the request allows shared devices: "staged", or a backend for the CPU.
bool may_share_devices(std::string_view requested);

/// Whether the backend carries CUDA tensors alone, as "nccl" and "staged" do.
bool is_for_cuda(std::string_view requested);

/// Two backends of the same ranks, each with its own order of collectives. Only the first allocates; both use its
/// memory in place.
std::pair<std::unique_ptr<Backend>, std::unique_ptr<Backend>> make_shm_pair(const BackendContext& context);

/// `options` with LOCKSTEP_BACKEND, LOCKSTEP_TIMEOUT_S, LOCKSTEP_START_TIMEOUT_S, LOCKSTEP_HOST_TIMEOUT_S,
/// LOCKSTEP_CHECK_COLLECTIVES and LOCKSTEP_ENCRYPT applied. Error(environment) naming a variable whose value breaks its
/// rule; Error(invalid_argument) for an unknown backend, for one that cannot encrypt where encryption is required, or
/// for a timeout out of range.
GroupOptions with_environment(GroupOptions options, const Environment& environment);

}  // namespace lockstep::detail
