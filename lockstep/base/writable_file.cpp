// A test of an output path: its folder must exist, and a temporary file is created there and removed.
#include <lockstep/base/atomic_file.h>
#include <lockstep/base/error.h>
#include <lockstep/base/writable_file.h>

#include <system_error>

namespace lockstep {

void require_writable_file(const std::filesystem::path& path, std::string_view flag) {
  if (is_stream(path)) return;  // opening a pipe may wait for its reader
  std::error_code failed;
  if (std::filesystem::is_directory(path, failed)) {
    fail(ErrorKind::invalid_argument, flag, "{} is a folder; give the name of a file", path.string());
  }
  if (const auto folder = path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
      !std::filesystem::is_directory(folder, failed)) {
    fail(ErrorKind::invalid_argument, flag, "{} cannot be written: {} {}; give another path", path.string(),
         folder.string(), std::filesystem::exists(folder, failed) ? "is not a folder" : "does not exist");
  }
  try {
    const AtomicFile probe(path);
  } catch (const Error& error) {
    throw Error(ErrorKind::invalid_argument, flag, error.message());
  }
}

}  // namespace lockstep
