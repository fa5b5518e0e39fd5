// The table of backends, and what a backend does that does not say otherwise.
#include <lockstep/comm/backends.h>

#include <lockstep/base/error.h>
#include <lockstep/comm/backend.h>

#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>

namespace lockstep::detail {

// Each is defined in the backend's folder, or in the stub that takes its place.
std::unique_ptr<Backend> make_self_backend(const BackendContext& context);
std::unique_ptr<Backend> make_shm_backend(const BackendContext& context);
std::unique_ptr<Backend> make_gloo_backend(const BackendContext& context);
std::unique_ptr<Backend> make_mpi_backend(const BackendContext& context);
std::unique_ptr<Backend> make_tls_backend(const BackendContext& context);
std::unique_ptr<Backend> make_hierarchy_backend(const BackendContext& context);

namespace {

using Serves = BackendKind::Serves;

constexpr bool kGloo = LOCKSTEP_HAS_GLOO;
constexpr bool kMpi = LOCKSTEP_HAS_MPI;

constexpr std::array kBackends = {
    // name, the ranks that it serves, whether others on the way can read nothing, whether this build has it, factory
    BackendKind{"self", Serves::one_rank, true, true, make_self_backend},
    BackendKind{"shm", Serves::one_host, true, true, make_shm_backend},
    BackendKind{"gloo", Serves::any_hosts, false, kGloo, make_gloo_backend},
    BackendKind{"mpi", Serves::any_hosts, false, kMpi, make_mpi_backend},
    BackendKind{"tls", Serves::any_hosts, true, true, make_tls_backend},
    BackendKind{"hierarchy", Serves::any_hosts, true, true, make_hierarchy_backend},
};

}  // namespace

std::span<const BackendKind> backends() { return kBackends; }

const BackendKind& backend_called(std::string_view name) {
  const auto* found =
      std::find_if(kBackends.begin(), kBackends.end(), [&](const auto& kind) { return kind.name == name; });
  if (found != kBackends.end()) return *found;
  fail(ErrorKind::invalid_argument, "connect", "no backend is called \"{}\"", name);
}

std::vector<std::string> backend_choices() {
  std::vector<std::string> choices = {"auto"};
  for (const auto& kind : kBackends) choices.emplace_back(kind.name);
  return choices;
}

std::string_view choose_backend(std::string_view requested, const std::vector<int>& hosts, bool encrypt) {
  if (hosts.size() == 1) return "self";
  const auto count = static_cast<std::size_t>(*std::max_element(hosts.begin(), hosts.end())) + 1;
  if (requested == "auto") {
    if (count == 1) return "shm";
    if (count < hosts.size()) return "hierarchy";
    return encrypt ? "tls" : "gloo";
  }
  const auto& kind = backend_called(requested);
  if (kind.serves == Serves::one_rank) {
    fail(ErrorKind::invalid_argument, "connect", "backend \"{}\" is for one rank, this group has {}; use auto",
         kind.name, hosts.size());
  }
  return kind.name == "hierarchy" && count == 1 ? "shm" : kind.name;
}

Backend::Pending Backend::reduce_parts(const at::Tensor&, const at::Tensor&, int, const std::vector<int>&, ReduceOp,
                                       const Call&) {
  fail(ErrorKind::unsupported, "reduce", "{} is not an engine inside a host", name());
}

Backend::Pending Backend::combine(ResultOf, const at::Tensor&, const at::Tensor&,
                                  const std::vector<std::vector<RankRange>>&, int, ReduceOp, const Call&) {
  fail(ErrorKind::unsupported, "reduce", "{} is not an engine between hosts", name());
}

at::Tensor Backend::allocate(std::int64_t elements, at::ScalarType dtype) {
  return at::empty({elements}, at::TensorOptions().dtype(dtype));
}

}  // namespace lockstep::detail
