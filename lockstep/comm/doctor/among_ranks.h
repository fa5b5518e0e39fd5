// The collective part of the diagnosis: the steps that the doctors of all ranks take together through a store.
#pragma once

#include <lockstep/comm/doctor/consult.h>
#include <lockstep/comm/doctor/notes.h>

#include <functional>
#include <vector>

namespace lockstep::doctor {

/// The expected participants.
struct Gathering {
  std::vector<int> absent{};             ///< known to be absent: not waited for (used on rank 0)
  bool all_are_asked = true;             ///< a rank that does not answer is absent; else it may be late
  std::function<void()> closed = [] {};  ///< called when no rank is waited for any more (on rank 0)
};

/// Collective. `mine` is completed with the port of this host's probe server.
Consultation among_ranks(Notes& notes, Facts mine, const Request& request, const Gathering& gathering);

}  // namespace lockstep::doctor
