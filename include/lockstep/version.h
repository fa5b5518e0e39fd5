// The version of the Lockstep library that a program runs with.
#pragma once

#include <string_view>

namespace lockstep {

/// "0.1.0": MAJOR.MINOR.PATCH of the library that is loaded. Versions with the same MAJOR.MINOR can replace each other.
/// Thread-safe.
std::string_view version() noexcept;

}  // namespace lockstep
