// The error for wrong flags of `lockstep run`.
#pragma once

#include <lockstep/base/error.h>

#include <fmt/format.h>

#include <utility>

namespace lockstep::cli {

/// Throws Error(invalid_argument) of `lockstep run`.
template <typename... Args>
[[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) {
  fail(ErrorKind::invalid_argument, "run", format, std::forward<Args>(args)...);
}

}  // namespace lockstep::cli
