#include <lockstep/base/error.h>
#include <lockstep/base/log.h>
#include <lockstep/world/overrule.h>

#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>

namespace lockstep::detail {
namespace {

// What `lockstep run` found when it was started itself; nullopt: the ranks were started by something else.
std::optional<std::vector<std::string>> launchers_around_run(const Environment& environment) {
  const auto text = find(environment, "LOCKSTEP_STARTED_INSIDE");
  if (!text) return std::nullopt;
  std::vector<std::string> names;
  std::istringstream in(*text);
  for (std::string name; std::getline(in, name, ',');) names.push_back(name);
  return names;
}

bool set_by_hand(const World& world, const Environment& environment) {
  return world.launcher == "pytorch" && !find(environment, "LOCAL_RANK") && !find(environment, "TORCHELASTIC_RUN_ID");
}

void check_by_hand(const World& world, const World& outer) {
  if (outer.size == 1 || (world.rank == outer.rank && world.size == outer.size)) return;
  fail(ErrorKind::environment, "world",
       "{} ({}) contradicts {} ({}), by which this process is rank {} of {}; unset RANK, WORLD_SIZE and "
       "LOCKSTEP_INIT_METHOD if they are left over, or name one of the two with --launcher",
       world.launcher, world.evidence, outer.launcher, outer.evidence, outer.rank, outer.size);
}

[[noreturn]] void fail_inside_run(const World& world, const World& outer) {
  fail(ErrorKind::environment, "world",
       "{} ({}) was started inside 'lockstep run' ({}): each of its {} processes would be the same rank; start the "
       "program with one of the two launchers, or name one with --launcher",
       outer.launcher, outer.evidence, world.evidence, outer.size);
}

}  // namespace

void check_against_outer(const World& world, const World& outer, int processes) {
  if (world.size >= processes) return;
  fail(ErrorKind::environment, "world",
       "{} ({}) contradicts {} ({}): {} processes cannot be {} rank{}; unset the variables that are left over, or name "
       "one with --launcher",
       world.launcher, world.evidence, outer.launcher, outer.evidence, processes, world.size,
       world.size == 1 ? "" : "s");
}

void note_victory(World& world, std::string_view over) { world.evidence += fmt::format(", which wins over {}", over); }

void overrule(World& world, const World& outer, const Environment& environment) {
  check_against_outer(world, outer, outer.size);
  if (set_by_hand(world, environment)) check_by_hand(world, outer);
  const auto around = world.launcher == "pytorch" ? launchers_around_run(environment) : std::nullopt;
  const bool known = around && std::find(around->begin(), around->end(), outer.launcher) != around->end();
  if (around && !known && outer.size > 1) fail_inside_run(world, outer);
  if (!known) world.overruled.push_back(fmt::format("{} ({})", outer.launcher, outer.evidence));
  note_victory(world, outer.launcher);
}

void warn_of_overruled(const World& world) {
  if (world.overruled.empty() || world.rank != 0) return;
  log_warning(
      "{} decides which rank this is; there are also the variables of {}, which do not count. If that is "
      "wrong, unset them or name one with --launcher",
      world.launcher, fmt::join(world.overruled, " and of "));
}

}  // namespace lockstep::detail
