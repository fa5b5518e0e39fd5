// The translation of the arguments of init_process_group to the variables that detection reads.
#include <lockstep/base/error.h>
#include <lockstep/world/init_method.h>
#include <lockstep/world/overrule.h>

namespace lockstep {
namespace {

void check(const InitMethod& method) {
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
  check(method);
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
