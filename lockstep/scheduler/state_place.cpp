#include <lockstep/base/atomic_file.h>
#include <lockstep/base/error.h>
#include <lockstep/base/file_text.h>
#include <lockstep/scheduler/state_place.h>

#include <cerrno>
#include <system_error>

namespace lockstep::scheduler {
namespace {

std::optional<std::string> read_if_there(const std::filesystem::path& file) {
  errno = 0;
  auto text = read_file(file);
  if (text || errno == ENOENT) return text;
  fail(ErrorKind::io, "scheduler", "cannot read the job's state from {}: {}", file.string(),
       std::generic_category().message(errno));
}

}  // namespace

StatePlace state_in_file(const std::filesystem::path& file) {
  std::error_code failed;
  std::filesystem::create_directories(file.parent_path(), failed);
  if (failed) {
    fail(ErrorKind::io, "scheduler", "cannot make the folder {} for the job's state (MS_RECOVERY_PATH): {}",
         file.parent_path().string(), failed.message());
  }
  return {file.string(), [file] { return read_if_there(file); },
          [file](const std::string& text) { write_file_atomically(file, text); }};
}

}  // namespace lockstep::scheduler
