// Detection of torchrun's variables, which `lockstep run` also sets, and which users set by hand.
#include <lockstep/base/error.h>
#include <lockstep/world/detect.h>
#include <lockstep/world/host_addresses.h>
#include <lockstep/world/meeting_point.h>
#include <lockstep/world/rank_variables.h>

#include <fmt/format.h>

#include <limits>

namespace lockstep::detail {
namespace {

constexpr RankVariables kNames = {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"};

void meet_at_master(const Environment& environment, World& world) {
  const auto address = find_master_addr(environment);
  const auto port = find_master_port(environment);
  if (world.size == 1) return;
  if (!address || !port) {
    fail(ErrorKind::environment, "world",
         "{} needs MASTER_ADDR and MASTER_PORT, but {} not set; set them to the host of rank 0 and a free port there, "
         "the same on all ranks",
         world.evidence,
         !address && !port ? "both are"
         : !address        ? "MASTER_ADDR is"
                           : "MASTER_PORT is");
  }
  world.meeting = Meeting::tcp;
  world.master_addr = *address;
  world.master_port = *port;
  add_evidence(world, "MASTER_ADDR", *address);
  add_evidence(world, "MASTER_PORT", fmt::to_string(*port));
}

// torchrun keeps one store for all restart attempts, so each attempt has a key prefix of its own.
void use_agent_store(const Environment& environment, World& world) {
  if (world.meeting != Meeting::tcp || find(environment, "TORCHELASTIC_USE_AGENT_STORE") != "True") return;
  const auto attempt =
      find_integer(environment, "TORCHELASTIC_RESTART_COUNT", 0, std::numeric_limits<std::int64_t>::max());
  world.store_is_external = true;
  meet_at_own_store(environment, world);
  world.job_service = find(environment, "LOCKSTEP_JOB_SERVICE").value_or("");
  world.store_prefix = fmt::format("/worker/attempt_{}", attempt.value_or(0));
}

// Local rank and local size without LOCAL_RANK or LOCAL_WORLD_SIZE; see detect.h.
void derive_local(const Environment& environment, World& world) {
  const auto local_rank = find_integer(environment, kNames.local_rank, 0, std::numeric_limits<int>::max());
  const auto local_size = find_integer(environment, kNames.local_size, 1, std::numeric_limits<int>::max());
  const bool on_this_host =
      world.size == 1 || (world.meeting == Meeting::tcp && is_always_this_host(world.master_addr));
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
  const auto given = local_rank ? kNames.local_rank : kNames.local_size;
  fail(ErrorKind::environment, "world", "{}={} is set but {} is not, and {} does not tell it; set both, or neither",
       given, local_rank ? *local_rank : *local_size, local_rank ? kNames.local_size : kNames.local_rank,
       world.evidence);
}

}  // namespace

std::optional<World> detect_pytorch(const Environment& environment) {
  auto world = rank_of_init_method(environment);
  if (!world) world = read_rank_and_size(environment, kNames);
  if (!world) return std::nullopt;
  world->launcher = "pytorch";
  if (world->size == 1 || !meet_by_init_method(environment, *world)) {
    meet_at_master(environment, *world);
    use_agent_store(environment, *world);
  }
  if (!read_local(environment, kNames, *world)) derive_local(environment, *world);
  return world;
}

}  // namespace lockstep::detail
