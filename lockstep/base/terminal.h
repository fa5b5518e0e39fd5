// Detection of an interactive terminal.
#pragma once

#include <lockstep/base/environment.h>

namespace lockstep {

/// Whether `fd` is the terminal of this session and can redraw lines: TERM is set and not "dumb". False for a pseudo
/// terminal that another program reads: mpirun gives each rank one, even when its own output goes to a file.
bool is_terminal_of_session(int fd, const Environment& environment);

}  // namespace lockstep
