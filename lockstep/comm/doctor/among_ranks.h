// The steps that the doctors of all ranks take together, once they have a store.
#pragma once

#include <lockstep/comm/doctor/consult.h>
#include <lockstep/comm/doctor/notes.h>

#include <functional>
#include <vector>

namespace lockstep::doctor {

/// How the ranks of the job came here.
struct Gathering {
  std::vector<int> absent{};             ///< known not to be here: nobody waits for them (rank 0 asks)
  bool all_are_asked = true;             ///< whoever says nothing is absent; else it may only be late
  std::function<void()> closed = [] {};  ///< called when nobody is waited for any more (on rank 0)
};

/// Collective. `mine` is completed with the port where this host greets the others.
Consultation among_ranks(Notes& notes, Facts mine, const Request& request, const Gathering& gathering);

}  // namespace lockstep::doctor
