// No launcher: one process.
#include <lockstep/base/error.h>
#include <lockstep/world/detect.h>
#include <lockstep/world/meeting_point.h>

namespace lockstep::detail {

World detect_none(const Environment& environment) {
  // Somebody meant this process to meet others but did not say which of them it is.
  if (has_init_method(environment)) {
    fail(ErrorKind::environment, "world",
         "LOCKSTEP_INIT_METHOD='{}' is set but RANK and WORLD_SIZE are not; set all three, or unset it",
         *find(environment, "LOCKSTEP_INIT_METHOD"));
  }
  World world;
  world.evidence = "no launcher's variables are set";
  return world;
}

}  // namespace lockstep::detail
