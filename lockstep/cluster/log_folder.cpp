#include <lockstep/base/error.h>
#include <lockstep/cluster/log_folder.h>

#include <fmt/core.h>
#include <stdlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

namespace lockstep::cluster {
namespace {

void make_folders(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) fail(ErrorKind::io, "launch", "cannot make the folder {}: {}", path.string(), error.message());
}

/// <parent>/<name>_<random>.
std::filesystem::path make_own_folder(const std::filesystem::path& parent, std::string_view name) {
  std::string path = (parent / fmt::format("{}_XXXXXX", name)).string();
  if (::mkdtemp(path.data()) == nullptr) {
    fail(ErrorKind::io, "launch", "cannot make a folder for logs in {}: {}", parent.string(), std::strerror(errno));
  }
  return path;
}

std::filesystem::path make_log_dir(const std::filesystem::path& wanted) {
  if (wanted.empty()) return TemporaryFolder("lockstep-logs").release();
  std::error_code ignored;
  if (std::filesystem::exists(wanted, ignored) && !std::filesystem::is_directory(wanted, ignored)) {
    fail(ErrorKind::invalid_argument, "run", "--log_dir {} is a file; give a folder, which is made where it is missing",
         wanted.string());
  }
  make_folders(wanted);
  return wanted;
}

}  // namespace

LogFolder::LogFolder(const OutputOptions& options, std::string_view run_id) {
  if (options.log_dir == "/dev/null") return;
  if (options.log_dir.empty() && !options.redirects.any() && !options.tee.any()) {
    path_ = temporary_.emplace("lockstep-run").path();
    return;
  }
  std::string name(run_id);
  std::replace(name.begin(), name.end(), '/', '_');
  path_ = make_own_folder(std::filesystem::absolute(make_log_dir(options.log_dir)), name);
}

std::filesystem::path LogFolder::attempt(int restart_count) const {
  return path_.empty() ? path_ : path_ / fmt::format("attempt_{}", restart_count);
}

void make_empty_folder(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::remove_all(path, error);
  if (error) fail(ErrorKind::io, "launch", "cannot empty the folder {}: {}", path.string(), error.message());
  make_folders(path);
}

}  // namespace lockstep::cluster
