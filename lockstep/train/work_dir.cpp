#include <lockstep/base/atomic_file.h>
#include <lockstep/base/error.h>
#include <lockstep/train/work_dir.h>

#include <system_error>

namespace lockstep::train {

void require_writable_folder(const std::filesystem::path& folder, std::string_view key) {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (failed) {
    const bool is_a_file = failed == std::errc::not_a_directory || failed == std::errc::file_exists;
    fail(is_a_file ? ErrorKind::config : ErrorKind::io, key, "cannot make the folder {}: {}; choose another",
         folder.string(), failed.message());
  }
  try {
    // Never committed: only whether the folder takes a file matters.
    AtomicFile probe(folder / "probe");
    probe.write("1");
  } catch (const Error& error) {
    fail(ErrorKind::io, key, "cannot write into the folder {}; choose another: {}", folder.string(), error.message());
  }
}

WorkDir::WorkDir(const std::filesystem::path& path) : path_(path) {
  require_writable_folder(path_ / "log", "system.work_dir");
}

std::filesystem::path WorkDir::log(int rank) const { return path_ / "log" / fmt::format("rank.{}", rank); }

}  // namespace lockstep::train
