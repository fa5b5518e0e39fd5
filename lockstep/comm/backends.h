// The table of backends: each with its name, the ranks that it can serve, and its factory. Names in settings, --help
// texts, errors and the configuration's allowed values come from here. A new backend is a folder and a row.
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

  std::string_view name;
  Serves serves;
  bool encrypts;  ///< with GroupOptions::encrypt nothing leaves the host unencrypted
  bool built;     ///< this build has it; else `make` is a stub that throws Error(unsupported) and says how to get it
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
/// For hierarchy on a single host it is shm, the only engine that hierarchy would use. Error(invalid_argument) for
/// "self" with several ranks.
std::string_view choose_backend(std::string_view requested, const std::vector<int>& hosts, bool encrypt = false);

/// Two backends of the same ranks, each with its own order of collectives. Only the first allocates; both use that
/// memory in place.
std::pair<std::unique_ptr<Backend>, std::unique_ptr<Backend>> make_shm_pair(const BackendContext& context);

}  // namespace lockstep::detail
