// Thorough tests: those that continuous integration leaves to scripts/test.sh --all, which sets
// LOCKSTEP_TEST_THOROUGH=1. They are whole tests, or instantiations, whose name begins with Thorough, and cases that a
// list of parameters adds when thorough() holds.
#pragma once

#include <cstdlib>
#include <string_view>

namespace lockstep::test {

inline bool thorough() {
  const char* value = std::getenv("LOCKSTEP_TEST_THOROUGH");
  return value != nullptr && std::string_view(value) == "1";
}

}  // namespace lockstep::test
