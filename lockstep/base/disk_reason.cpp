// The message of an errno; for a full disk or quota, with the bytes that are free.
#include <lockstep/base/disk_reason.h>

#include <fmt/format.h>

#include <cerrno>
#include <system_error>

namespace lockstep {

std::string disk_reason(int error, const std::filesystem::path& path) {
  std::string text = std::generic_category().message(error);
  if (error == ENOSPC || error == EDQUOT) {
    std::error_code failed;
    const auto space = std::filesystem::space(path.has_parent_path() ? path.parent_path() : ".", failed);
    text = error == ENOSPC ? "the disk is full" : "the disk quota is used up";
    if (!failed) text += fmt::format(" ({} bytes free)", space.available);
    text += "; make room or choose another folder";
  }
  return text;
}

}  // namespace lockstep
