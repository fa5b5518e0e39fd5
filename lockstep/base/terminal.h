// Detection of a terminal that a user sees.
#pragma once

#include <lockstep/base/environment.h>

namespace lockstep {

/// Whether what is written to `fd` appears on the terminal of this session, and lines can be redrawn there: TERM is set
/// and not "dumb". A pseudo terminal that another program reads is none: mpirun gives each rank one, wherever its own
/// output goes.
bool is_terminal_of_session(int fd, const Environment& environment);

}  // namespace lockstep
