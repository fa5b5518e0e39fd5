#include <lockstep/base/error.h>
#include <lockstep/world/rank_variables.h>

#include <fmt/format.h>

#include <limits>

namespace lockstep::detail {
namespace {

constexpr std::int64_t kMostRanks = std::numeric_limits<int>::max();

std::optional<int> find_int(const Environment& environment, std::string_view name, int low) {
  const auto value = find_integer(environment, name, low, kMostRanks);
  if (!value) return std::nullopt;
  return static_cast<int>(*value);
}

}  // namespace

std::optional<World> read_rank_and_size(const Environment& environment, const RankVariables& names) {
  const auto rank = find_int(environment, names.rank, 0);
  const auto size = find_int(environment, names.size, 1);
  if (!rank && !size) return std::nullopt;
  if (!rank || !size) {
    fail(ErrorKind::environment, "world", "{} is set but {} is not; set both, or unset {}",
         rank ? names.rank : names.size, rank ? names.size : names.rank, rank ? names.rank : names.size);
  }
  if (*rank >= *size) {
    fail(ErrorKind::environment, "world", "{}={} is not below {}={}; ranks count from 0 to {}", names.rank, *rank,
         names.size, *size, *size - 1);
  }
  World world;
  world.rank = *rank;
  world.size = *size;
  world.evidence = fmt::format("{}={} {}={}", names.rank, *rank, names.size, *size);
  return world;
}

bool read_local(const Environment& environment, const RankVariables& names, World& world) {
  const auto rank = find_int(environment, names.local_rank, 0);
  const auto size = find_int(environment, names.local_size, 1);
  if (!rank || !size) return false;
  if (*rank >= *size) {
    fail(ErrorKind::environment, "world", "{}={} is not below {}={}; local ranks count from 0 to {}", names.local_rank,
         *rank, names.local_size, *size, *size - 1);
  }
  if (*size > world.size) {
    fail(ErrorKind::environment, "world", "{}={} is above {}={}; one host cannot hold more ranks than there are",
         names.local_size, *size, names.size, world.size);
  }
  world.local_rank = *rank;
  world.local_size = *size;
  return true;
}

void add_evidence(World& world, std::string_view name, std::string_view value) {
  world.evidence += fmt::format(" {}={}", name, value);
}

}  // namespace lockstep::detail
