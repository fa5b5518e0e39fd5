// The table of backends, the default implementations of Backend's functions, what stands in for backends that this
// build lacks, and the options of connect() after LOCKSTEP_BACKEND, LOCKSTEP_TIMEOUT_S and the like have replaced their
// values, checked.
#include <lockstep/comm/backends.h>

#include <lockstep/base/error.h>
#include <lockstep/base/nearest.h>
#include <lockstep/base/text.h>
#include <lockstep/comm/backend.h>
#include <lockstep/comm/device/devices.h>
#include <lockstep/comm/meet/stores.h>

#include <ATen/ops/empty.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace lockstep::detail {

// Each function is defined in the backend's folder, or below, where this build lacks the backend.
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

// What stands in for backends and devices that this build lacks, so that no call asks.

#if !LOCKSTEP_HAS_CUDA
DeviceIdentity cuda_identity(int) { return {}; }

std::vector<std::string> pairs_without_peer_access(int) { return {}; }

std::int64_t free_device_memory(int) { return 0; }
#endif

#if !LOCKSTEP_HAS_NCCL
std::unique_ptr<Backend> make_nccl_backend(const BackendContext&) {
  fail(ErrorKind::unsupported, "connect",
       "this Lockstep was built without NCCL; build with a libtorch for CUDA (docs/libtorch.md), or use a backend for "
       "the CPU");
}
#endif

#if !LOCKSTEP_HAS_MPI
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
#endif

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

namespace {

std::string known_backend(std::string name, ErrorKind kind, std::string_view where) {
  const auto choices = backend_choices();
  if (std::find(choices.begin(), choices.end(), name) != choices.end()) return name;
  fail(kind, where, "no backend is called \"{}\"; there are {}{}", name, fmt::join(choices, ", "),
       did_you_mean(name, choices));
}

std::optional<std::chrono::milliseconds> seconds_in(const Environment& environment, std::string_view name) {
  const auto text = find(environment, name);
  if (!text) return std::nullopt;
  constexpr double kLongest = 365.0 * 24 * 3600;
  const auto value = parse_number(*text);
  if (!value || *value < 0.001 || *value > kLongest) {
    fail(ErrorKind::environment, "connect", "{}=\"{}\" must be a number of seconds, at least 0.001", name, *text);
  }
  return std::chrono::milliseconds(std::llround(*value * 1000));
}

std::optional<bool> zero_or_one(const Environment& environment, std::string_view name) {
  const auto value = find_integer(environment, name, 0, 1);
  return value ? std::optional<bool>(*value == 1) : std::nullopt;
}

}  // namespace

GroupOptions with_environment(GroupOptions options, const Environment& environment) {
  known_backend(options.backend, ErrorKind::invalid_argument, "connect");
  if (const auto name = find(environment, "LOCKSTEP_BACKEND")) {
    options.backend = known_backend(*name, ErrorKind::environment, "LOCKSTEP_BACKEND");
  }
  options.timeout = seconds_in(environment, "LOCKSTEP_TIMEOUT_S").value_or(options.timeout);
  options.start_timeout = seconds_in(environment, "LOCKSTEP_START_TIMEOUT_S").value_or(options.start_timeout);
  options.host_timeout = seconds_in(environment, "LOCKSTEP_HOST_TIMEOUT_S").value_or(options.host_timeout);
  options.check_collectives =
      zero_or_one(environment, "LOCKSTEP_CHECK_COLLECTIVES").value_or(options.check_collectives);
  options.encrypt = zero_or_one(environment, "LOCKSTEP_ENCRYPT").value_or(options.encrypt) || options.backend == "tls";
  if (options.encrypt && options.backend != "auto" && !backend_called(options.backend).encrypts) {
    fail(ErrorKind::invalid_argument, "connect",
         "encryption is on (parallel.encrypt, LOCKSTEP_ENCRYPT), and backend \"{}\" cannot encrypt; leave the backend "
         "at auto, or choose {}",
         options.backend, is_for_cuda(options.backend) ? "staged" : "tcp");
  }
  if (options.timeout.count() <= 0 || options.start_timeout.count() <= 0) {
    fail(ErrorKind::invalid_argument, "connect", "timeouts must be positive; timeout is {} ms, start_timeout {} ms",
         options.timeout.count(), options.start_timeout.count());
  }
  // The kernel takes these times in whole seconds, and they are fractions of this timeout.
  if (options.host_timeout < std::chrono::seconds(3) || options.host_timeout > std::chrono::hours(24)) {
    fail(ErrorKind::invalid_argument, "connect",
         "host_timeout (LOCKSTEP_HOST_TIMEOUT_S) must be from 3 s to a day; it is {} ms", options.host_timeout.count());
  }
  return options;
}

}  // namespace lockstep::detail
