// The errors of the readers of .pth files.
#pragma once

#include <lockstep/base/error.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

namespace lockstep::state {

/// Throws Error(data) that names the file. Thread-safe.
class PthError {
 public:
  explicit PthError(std::filesystem::path file) : file_(std::move(file)) {}

  template <typename... Args>
  [[noreturn]] void operator()(fmt::format_string<Args...> format, Args&&... args) const {
    throw Error(ErrorKind::data, "pth", fmt::format(format, std::forward<Args>(args)...), {file_.string(), 0});
  }

 private:
  std::filesystem::path file_;
};

/// Advice on how to get a readable file. It does not suggest to load this file, because torch.load runs code from a
/// file.
inline constexpr std::string_view kSavePlainly =
    "save a plain state dict with Python: torch.save(model.state_dict(), \"weights.pth\")";

}  // namespace lockstep::state
