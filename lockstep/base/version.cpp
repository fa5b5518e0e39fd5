// The version of the built library, checked against the public header at compile time.
#include <lockstep/version.h>

namespace lockstep {

static_assert(kHeaderVersion == LOCKSTEP_VERSION, "include/lockstep/version.h and CMakeLists.txt must agree");

std::string_view version() noexcept { return LOCKSTEP_VERSION; }

}  // namespace lockstep
