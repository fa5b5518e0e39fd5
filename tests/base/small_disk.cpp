#include "base/small_disk.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <lockstep/base/error.h>
#include <lockstep/base/temporary_folder.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <system_error>

#include "support/forks.h"

namespace lockstep::test {
namespace {

void require(bool done, const char* what) {
  if (!done) {
    const int error = errno;
    fail(ErrorKind::io, "small disk", "{}: {}", what, std::generic_category().message(error));
  }
}

// Who is not root becomes it in a namespace of their own, where mounting is allowed.
void enter_namespace() {
  if (::geteuid() == 0) {
    require(::unshare(CLONE_NEWNS) == 0, "unshare");
    return;
  }
  const auto user = ::geteuid();
  require(::unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0, "unshare");
  std::ofstream("/proc/self/uid_map") << "0 " << user << " 1";
}

}  // namespace

void mount_small_disk(const std::filesystem::path& folder, std::size_t bytes) {
  enter_namespace();
  require(::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0, "make mounts private");
  require(::mount("none", folder.c_str(), "tmpfs", 0, fmt::format("size={}", bytes).c_str()) == 0, "mount tmpfs");
}

std::string why_no_small_disk() {
  const TemporaryFolder folder;
  const auto outcomes = fork_outcomes(1, {}, [&](int) { mount_small_disk(folder.path(), 65536); });
  return outcomes.front().ok() ? "" : outcomes.front().output;
}

}  // namespace lockstep::test
