// Detection of torchrun's variables, which `lockstep run` also sets, and which users set by hand; and of the arguments
// of init_process_group, which become these variables.
#include <lockstep/base/error.h>
#include <lockstep/world/detect.h>
#include <lockstep/world/host_addresses.h>
#include <lockstep/world/launcher_variables.h>
#include <lockstep/world/start.h>

#include <fmt/format.h>

#include <limits>

namespace lockstep::detail {
namespace {

constexpr RankVariables kTorchrun = {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"};

void meet_at_master(const Environment& environment, World& world) {
  const auto address = find_master_addr(environment);
  const auto port = find_master_port(environment);
  if (world.size == 1) return;
  if (!address || !port) {
    fail(
        ErrorKind::environment, "world",
        "{} needs MASTER_ADDR and MASTER_PORT, but {} not set{}; set them to the host of rank 0 and a free port there, "
        "the same on all ranks",
        world.evidence,
        !address && !port ? "both are"
        : !address        ? "MASTER_ADDR is"
                          : "MASTER_PORT is",
        note_of_service(environment, "MASTER_PORT"));
  }
  world.rendezvous = Rendezvous::tcp;
  world.master_addr = *address;
  world.master_port = *port;
  add_evidence(world, "MASTER_ADDR", *address);
  add_evidence(world, "MASTER_PORT", fmt::to_string(*port));
}

// torchrun keeps one store for all restart attempts, so each attempt has a key prefix of its own.
void use_agent_store(const Environment& environment, World& world) {
  if (world.rendezvous != Rendezvous::tcp || find(environment, "TORCHELASTIC_USE_AGENT_STORE") != "True") return;
  const auto attempt =
      find_integer(environment, "TORCHELASTIC_RESTART_COUNT", 0, std::numeric_limits<std::int64_t>::max());
  world.store_is_external = true;
  meet_at_own_store(environment, world);
  world.job_service = find(environment, "LOCKSTEP_JOB_SERVICE").value_or("");
  world.store_prefix = fmt::format("/worker/attempt_{}", attempt.value_or(0));
}

// Local rank and local size without LOCAL_RANK or LOCAL_WORLD_SIZE; see detect.h. A loopback address alone is no
// evidence that all ranks are on this host: Kubeflow's PyTorchJob gives it to rank 0, and a name of rank 0 to the other
// ranks.
void derive_local(const Environment& environment, World& world) {
  const auto local_rank = find_integer(environment, kTorchrun.local_rank, 0, std::numeric_limits<int>::max());
  const auto local_size = find_integer(environment, kTorchrun.local_size, 1, std::numeric_limits<int>::max());
  if (world.size > 1 && !local_rank && !local_size) {
    world.local_rank = -1;
    world.local_size = 0;
    return;
  }
  const bool on_this_host =
      world.size == 1 || (world.rendezvous == Rendezvous::tcp && is_always_this_host(world.master_addr));
  if (!on_this_host && local_rank && *local_rank < world.size) {
    world.local_rank = static_cast<int>(*local_rank);
    world.local_size = 0;
    return;
  }
  if (on_this_host) {
    world.local_rank = world.rank;
    world.local_size = world.size;
  }
  const bool agrees = local_rank.value_or(world.local_rank) == world.local_rank &&
                      local_size.value_or(world.local_size) == world.local_size;
  if (agrees && (on_this_host || !local_size)) return;
  const auto given = local_rank ? kTorchrun.local_rank : kTorchrun.local_size;
  fail(ErrorKind::environment, "world", "{}={} is set but {} is not, and {} does not give it; set both, or neither",
       given, local_rank ? *local_rank : *local_size, local_rank ? kTorchrun.local_size : kTorchrun.local_rank,
       world.evidence);
}

}  // namespace

std::optional<World> detect_pytorch(const Environment& environment) {
  if (is_numbered_by_pai(environment)) return std::nullopt;
  auto world = rank_of_init_method(environment);
  if (!world) world = read_rank_and_size(environment, kTorchrun);
  if (!world) return std::nullopt;
  world->launcher = "pytorch";
  if (world->size == 1 || !meet_by_init_method(environment, *world)) {
    meet_at_master(environment, *world);
    use_agent_store(environment, *world);
  }
  if (!read_local(environment, kTorchrun, *world)) derive_local(environment, *world);
  return world;
}

}  // namespace lockstep::detail

namespace lockstep {
namespace {

void check_method(const InitMethod& method) {
  if (method.rank.has_value() != method.world_size.has_value()) {
    fail(ErrorKind::invalid_argument, "world", "{} is given but {} is not; give both, or neither",
         method.rank ? "rank" : "world_size", method.rank ? "world_size" : "rank");
  }
  if (method.rank && method.url.find('?') != std::string::npos) {
    fail(ErrorKind::invalid_argument, "world",
         "rank and world_size are given, and the URL {} has a query; give them in one of the two places", method.url);
  }
}

// Removes a launcher's variables, which describe another world than the arguments.
void forget_launcher(Environment& environment) {
  for (const auto* name : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "TORCHELASTIC_USE_AGENT_STORE"}) {
    environment.erase(name);
  }
}

}  // namespace

World detail::world_of_init_method(const InitMethod& method, Environment environment) {
  check_method(method);
  environment.insert_or_assign("LOCKSTEP_INIT_METHOD", method.url);
  const bool in_query = method.url.find('?') != std::string::npos;
  if (!method.rank && !in_query) return detect_world(environment);
  if (method.rank) {
    const auto rank = std::to_string(*method.rank);
    const auto size = std::to_string(*method.world_size);
    const bool same = find(environment, "RANK") == rank && find(environment, "WORLD_SIZE") == size;
    if (!same) forget_launcher(environment);
    environment.insert_or_assign("RANK", rank);
    environment.insert_or_assign("WORLD_SIZE", size);
  } else {
    forget_launcher(environment);
  }
  return detect_world(environment, "pytorch");
}

World detect_world(const InitMethod& method) {
  World world = detail::world_of_init_method(method, current_environment());
  world.host = detail::host_name();
  return world;
}

}  // namespace lockstep
