// The precedence among launchers whose variables are set together, and the contradictions that are errors.
#include <lockstep/base/error.h>
#include <lockstep/world/start.h>

#include <fmt/format.h>

#include <sstream>

namespace lockstep::detail {
namespace {

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

bool set_by_hand(const World& world, const Environment& environment) {
  return world.launcher == "pytorch" && !find(environment, "LOCAL_RANK") && !find(environment, "TORCHELASTIC_RUN_ID");
}

void check_against_outer(const World& world, const World& outer, int processes) {
  if (world.size >= processes) return;
  fail(ErrorKind::environment, "world",
       "{} ({}) contradicts {} ({}): {} processes cannot be {} rank{}; unset the variables that are left over, or name "
       "one with --launcher",
       world.launcher, world.evidence, outer.launcher, outer.evidence, processes, world.size,
       world.size == 1 ? "" : "s");
}

void note_victory(World& world, std::string_view over) {
  world.evidence += fmt::format(", which takes precedence over {}", over);
}

std::optional<bool> is_around_run(const World& world, std::string_view launcher, const Environment& environment) {
  const auto text = find(environment, "LOCKSTEP_STARTED_INSIDE");
  if (!text || world.launcher != "pytorch") return std::nullopt;
  std::istringstream in(*text);
  for (std::string name; std::getline(in, name, ',');) {
    if (name == launcher) return true;
  }
  return false;
}

std::string starter_of_pytorch(const Environment& environment) {
  const bool has_job = find(environment, "TORCHELASTIC_RUN_ID").has_value();
  if (find(environment, "LOCKSTEP_STARTED_INSIDE")) return has_job ? "lockstep run" : "lockstep::spawn";
  return has_job ? "torchrun" : "pytorch";
}

void note_outer_launcher(World& world, const World& outer, const Environment& environment) {
  check_against_outer(world, outer, outer.size);
  if (set_by_hand(world, environment)) check_by_hand(world, outer);
  if (is_around_run(world, outer.launcher, environment) == false && outer.size > 1) fail_inside_run(world, outer);
  note_victory(world, outer.launcher);
}

}  // namespace lockstep::detail
