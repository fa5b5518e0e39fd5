// The versions of the Lockstep library: that of the loaded library, and that of the headers at compile time.
#pragma once

#include <string_view>

namespace lockstep {

/// "0.1.0": MAJOR.MINOR.PATCH of the library that is loaded. Versions with the same MAJOR.MINOR can replace each other.
/// Thread-safe.
std::string_view version() noexcept;

/// The version of these headers.
inline constexpr std::string_view kHeaderVersion = "0.1.0";

}  // namespace lockstep
