// The normal form of flag names.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

namespace lockstep::cli {

/// "log-dir" for "log_dir": torchrun takes both.
inline std::string with_dashes(std::string_view text) {
  std::string result(text);
  std::replace(result.begin(), result.end(), '_', '-');
  return result;
}

}  // namespace lockstep::cli
