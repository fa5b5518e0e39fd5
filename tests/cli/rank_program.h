// The program whose ranks do as they are told (tests/launchers/rank_program.cpp), as words of a command line.
#pragma once

#include "cli/program.h"

#include <utility>

namespace lockstep::test {

inline Words rank_program(Words actions) {
  actions.insert(actions.begin(), LOCKSTEP_RANK_PROGRAM);
  return actions;
}

}  // namespace lockstep::test
