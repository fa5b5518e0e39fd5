// Log folders of a launch: torchrun's layout, or a locked temporary folder; abandoned ones are removed.
#include <lockstep/base/error.h>
#include <lockstep/cluster/output/log_folder.h>

#include <fcntl.h>
#include <fmt/core.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <system_error>

namespace lockstep::cluster {
namespace {

constexpr const char* kTemporary = "lockstep-run";

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

/// Locks a folder while its owner lives; empty where it cannot be locked.
UniqueFd lock_folder(const std::filesystem::path& path) {
  UniqueFd folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (folder && ::flock(folder.get(), LOCK_EX | LOCK_NB) != 0) folder.reset();
  return folder;
}

bool is_abandoned(const std::filesystem::directory_entry& entry) {
  constexpr std::time_t kYoung = 60;  // younger than this, its owner may still be about to lock it
  struct stat info {};
  if (!entry.path().filename().string().starts_with(kTemporary) || ::lstat(entry.path().c_str(), &info) != 0) {
    return false;
  }
  const bool mine = S_ISDIR(info.st_mode) && info.st_uid == ::geteuid();
  return mine && info.st_mtime + kYoung < std::time(nullptr) && lock_folder(entry.path());
}

/// Removes the folders of killed launchers.
void remove_abandoned(const std::filesystem::path& parent) {
  std::error_code ignored;
  for (std::filesystem::directory_iterator entry(parent, ignored), end; !ignored && entry != end;) {
    const auto one = *entry;
    entry.increment(ignored);
    std::error_code failed;
    if (is_abandoned(one)) std::filesystem::remove_all(one.path(), failed);
  }
}

}  // namespace

LogFolder::LogFolder(const OutputOptions& options, std::string_view run_id) {
  if (options.log_dir == "/dev/null") return;
  if (options.log_dir.empty() && !options.wants_files()) {
    path_ = temporary_.emplace(kTemporary).path();
    lock_ = lock_folder(path_);
    remove_abandoned(path_.parent_path());
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
