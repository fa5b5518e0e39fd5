#include <lockstep/version.h>

namespace lockstep {

std::string_view version() noexcept { return LOCKSTEP_VERSION; }

}  // namespace lockstep
