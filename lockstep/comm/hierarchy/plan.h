// The plan of one operation on one rank: its steps in order.
#pragma once

#include <lockstep/comm/backend.h>

#include <functional>
#include <utility>
#include <vector>

namespace lockstep::detail::hierarchy {

/// The engine that a step is for (see engines.h). `message`: point to point, on whichever engine.
enum class Lane { up, across, down, direct, message };

struct Step {
  Lane lane;
  std::function<Backend::Pending()> start;
};

/// Steps follow one another: each starts when the one before is complete. All ranks of an engine take the same
/// operations' steps on it. The functions own the tensors they use.
struct Plan {
  std::vector<Step> steps;
  std::function<void()> finish;  ///< after the last step; may be empty

  void add(Lane lane, std::function<Backend::Pending()> start) { steps.push_back({lane, std::move(start)}); }
};

}  // namespace lockstep::detail::hierarchy
