// The table of backends: each with its name, the ranks that it can serve, the devices whose tensors it carries, and its
// factory. Names in settings, --help texts, errors and the configuration's allowed values come from here. A new backend
// is a folder and a row.
#pragma once

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

  /// The tensors that it carries. A backend for CUDA alone stands beside one for the CPU (BackendContext::beside).
  enum class Carries { cpu, cuda, both };

  std::string_view name;
  Serves serves;
  Carries carries;
  bool encrypts;     ///< with GroupOptions::encrypt nothing leaves the host unencrypted
  bool own_devices;  ///< each rank needs a device of its own
  bool built;        ///< this build has it; else `make` is a stub that throws Error(unsupported) and says how to get it
  std::unique_ptr<Backend> (*make)(const BackendContext& context);  ///< collective over the group
};

/// All backends, those included that this build lacks.
std::span<const BackendKind> backends();

/// The row of `name`. Error(invalid_argument) for any other name, which includes "auto".
const BackendKind& backend_called(std::string_view name);

/// The values of the option `backend`: "auto", then the names in the table's order.
std::vector<std::string> backend_choices();

/// The backend for a group, given the number of each rank's host (BackendContext::hosts): self for one rank, else what
/// was asked for, where "auto" means shm when all ranks share a host, hierarchy when some do, and gloo (tls with
/// `encrypt`) when none do.
/// For hierarchy on a single host it is shm, the only engine that hierarchy would use. A backend for CUDA alone counts
/// as "auto": this is the one for tensors on the CPU, and for what has no tensor. Error(invalid_argument) for "self"
/// with several ranks.
std::string_view choose_backend(std::string_view requested, const std::vector<int>& hosts, bool encrypt = false);

/// The backend for tensors on CUDA devices: what was asked for, where "auto" means the first row that this build has
/// and that fits, and a backend for the CPU means "staged", which goes over it. self for one rank. Error(unsupported)
/// where this build has none for CUDA.
std::string_view choose_cuda_backend(std::string_view requested, const std::vector<int>& hosts, bool encrypt = false);

/// Whether it is asked for to share devices: "staged", or one for the CPU.
bool may_share_devices(std::string_view requested);

/// Whether it carries CUDA tensors alone, as "nccl" and "staged" do.
bool is_for_cuda(std::string_view requested);

/// Two backends of the same ranks, each with its own order of collectives. Only the first allocates; both use that
/// memory in place.
std::pair<std::unique_ptr<Backend>, std::unique_ptr<Backend>> make_shm_pair(const BackendContext& context);

}  // namespace lockstep::detail
