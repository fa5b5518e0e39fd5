// Detection without a launcher: a single process.
#include <lockstep/base/error.h>
#include <lockstep/world/detect.h>
#include <lockstep/world/meeting_point.h>

namespace lockstep::detail {

World detect_none(const Environment& environment) {
  // A rendezvous is given, but not the rank of this process.
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
