// What a chaos run is asked for: SEED [SECONDS [WORKERS]].
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::test {

struct Order {
  std::uint64_t seed = 0;
  int seconds = 120;  ///< of breaking; the job then ends in peace
  int workers = 8;
};

/// Error(invalid_argument) for what cannot be.
Order parse_order(const std::vector<std::string>& arguments);

}  // namespace lockstep::test
