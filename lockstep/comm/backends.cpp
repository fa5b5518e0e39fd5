// The table of backends, and the default implementations of Backend's functions.
#include <lockstep/comm/backends.h>

#include <lockstep/base/error.h>
#include <lockstep/comm/backend.h>

#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>
#include <utility>

namespace lockstep::detail {

// Each function is defined in the backend's folder, or in the stub that replaces it.
std::unique_ptr<Backend> make_self_backend(const BackendContext& context);
std::unique_ptr<Backend> make_shm_backend(const BackendContext& context);
std::unique_ptr<Backend> make_tcp_backend(const BackendContext& context);
std::unique_ptr<Backend> make_mpi_backend(const BackendContext& context);
std::unique_ptr<Backend> make_hierarchy_backend(const BackendContext& context);
std::unique_ptr<Backend> make_nccl_backend(const BackendContext& context);
std::unique_ptr<Backend> make_staged_backend(const BackendContext& context);

namespace {

using Serves = BackendKind::Serves;
using Carries = BackendKind::Carries;

constexpr bool kMpi = LOCKSTEP_HAS_MPI;
constexpr bool kNccl = LOCKSTEP_HAS_NCCL;
constexpr bool kCuda = LOCKSTEP_HAS_CUDA;

constexpr std::array kBackends = {
    // name, the ranks that it serves, the tensors that it carries, whether it encrypts, whether each rank needs a
    // device of its own, whether this build has it, factory
    BackendKind{"self", Serves::one_rank, Carries::both, true, false, true, make_self_backend},
    BackendKind{"shm", Serves::one_host, Carries::cpu, true, false, true, make_shm_backend},
    BackendKind{"tcp", Serves::any_hosts, Carries::cpu, true, false, true, make_tcp_backend},
    BackendKind{"mpi", Serves::any_hosts, Carries::cpu, false, false, kMpi, make_mpi_backend},
    BackendKind{"hierarchy", Serves::any_hosts, Carries::cpu, true, false, true, make_hierarchy_backend},
    BackendKind{"nccl", Serves::any_hosts, Carries::cuda, false, true, kNccl, make_nccl_backend},
    BackendKind{"staged", Serves::any_hosts, Carries::cuda, true, false, kCuda, make_staged_backend},
};

/// Other words for a backend: what was Gloo, and what other programs call Gloo, is tcp; tls is tcp that encrypts.
constexpr std::array<std::pair<std::string_view, std::string_view>, 2> kOtherWords{{{"gloo", "tcp"}, {"tls", "tcp"}}};

}  // namespace

std::span<const BackendKind> backends() { return kBackends; }

const BackendKind& backend_called(std::string_view name) {
  for (const auto& [word, backend] : kOtherWords) {
    if (name == word) name = backend;
  }
  const auto* found =
      std::find_if(kBackends.begin(), kBackends.end(), [&](const auto& kind) { return kind.name == name; });
  if (found != kBackends.end()) return *found;
  fail(ErrorKind::invalid_argument, "connect", "no backend is called \"{}\"", name);
}

std::vector<std::string> backend_choices() {
  std::vector<std::string> choices = {"auto"};
  for (const auto& kind : kBackends) choices.emplace_back(kind.name);
  for (const auto& [word, backend] : kOtherWords) choices.emplace_back(word);
  return choices;
}

std::string_view choose_backend(std::string_view requested, const std::vector<int>& hosts) {
  if (hosts.size() == 1) return "self";
  const auto count = static_cast<std::size_t>(*std::max_element(hosts.begin(), hosts.end())) + 1;
  if (requested == "auto" || is_for_cuda(requested)) {
    if (count == 1) return "shm";
    if (count < hosts.size()) return "hierarchy";
    return "tcp";
  }
  const auto& kind = backend_called(requested);
  if (kind.serves == Serves::one_rank) {
    fail(ErrorKind::invalid_argument, "connect", "backend \"{}\" is for one rank, this group has {}; use auto",
         kind.name, hosts.size());
  }
  return kind.name == "hierarchy" && count == 1 ? "shm" : kind.name;
}

std::string_view choose_cuda_backend(std::string_view requested, const std::vector<int>& hosts, bool encrypt) {
  if (hosts.size() == 1) return "self";
  if (requested != "auto") {
    const auto& kind = backend_called(requested);
    return kind.carries == Carries::cpu ? "staged" : kind.name;
  }
  for (const auto& kind : kBackends) {
    if (kind.carries == Carries::cuda && kind.built && (!encrypt || kind.encrypts)) return kind.name;
  }
  fail(ErrorKind::unsupported, "connect",
       "this Lockstep was built for CPUs alone and carries no CUDA tensors between ranks; build with a libtorch for "
       "CUDA (docs/libtorch.md)");
}

bool may_share_devices(std::string_view requested) {
  return requested != "auto" && !backend_called(requested).own_devices;
}

bool is_for_cuda(std::string_view requested) {
  return requested != "auto" && backend_called(requested).carries == Carries::cuda;
}

namespace {

[[noreturn]] void fail_lacking(const Backend& backend, std::string_view op) {
  fail(ErrorKind::unsupported, op, "backend {} does not have it", backend.name());
}

}  // namespace

Backend::Pending Backend::all_reduce(at::Tensor&, ReduceOp, const Call& call) { fail_lacking(*this, call.op); }
Backend::Pending Backend::reduce(at::Tensor&, int, ReduceOp, const Call& call) { fail_lacking(*this, call.op); }
Backend::Pending Backend::broadcast(at::Tensor&, int, const Call& call) { fail_lacking(*this, call.op); }
Backend::Pending Backend::all_gather(at::Tensor&, const at::Tensor&, const Call& call) { fail_lacking(*this, call.op); }
Backend::Pending Backend::reduce_scatter(at::Tensor&, const at::Tensor&, ReduceOp, const Call& call) {
  fail_lacking(*this, call.op);
}
Backend::Pending Backend::all_to_all(at::Tensor&, const at::Tensor&, const Call& call) { fail_lacking(*this, call.op); }
Backend::Pending Backend::gather(at::Tensor*, const at::Tensor&, int, const Call& call) {
  fail_lacking(*this, call.op);
}
Backend::Pending Backend::scatter(at::Tensor&, const at::Tensor*, int, const Call& call) {
  fail_lacking(*this, call.op);
}
Backend::Pending Backend::send(const at::Tensor&, int, int, const Call& call) { fail_lacking(*this, call.op); }
Backend::Pending Backend::receive(at::Tensor&, int, int, const Call& call) { fail_lacking(*this, call.op); }

// Only hierarchy calls these functions, on the engines that it has chosen.
Backend::Pending Backend::reduce_parts(const at::Tensor&, const at::Tensor&, int, const std::vector<int>&, ReduceOp,
                                       const Call& call) {
  fail_lacking(*this, call.op);
}
Backend::Pending Backend::combine(ResultOf, const at::Tensor&, const at::Tensor&,
                                  const std::vector<std::vector<RankRange>>&, int, ReduceOp, const Call& call) {
  fail_lacking(*this, call.op);
}

// Backends for CUDA do not implement these: their group uses the backend for the CPU.
Backend::Pending Backend::barrier(const Call& call) { fail_lacking(*this, call.op); }
std::vector<std::string> Backend::exchange(const std::string&, const Call& call) { fail_lacking(*this, call.op); }

at::Tensor Backend::allocate(std::int64_t elements, at::ScalarType dtype) {
  return at::empty({elements}, at::TensorOptions().dtype(dtype));
}

}  // namespace lockstep::detail
