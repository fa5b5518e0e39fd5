// A list of this process's other threads from /proc, after a trial fork that ends the thread pool of OpenBLAS.
#include <lockstep/base/error.h>
#include <lockstep/cluster/processes/single_thread.h>

#include <fmt/ranges.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

// Functions of the math libraries that libtorch uses, where they are loaded. Their variables are read at load time
// only.
extern "C" {
[[gnu::weak]] void omp_set_num_threads(int);
[[gnu::weak]] int omp_get_max_threads();
[[gnu::weak]] void openblas_set_num_threads(int);
[[gnu::weak]] int openblas_get_num_threads();
}

namespace lockstep::cluster {
namespace {

/// The names of the other threads, sorted.
std::vector<std::string> threads_now() {
  const std::string self = std::to_string(::syscall(SYS_gettid));
  std::vector<std::string> names;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    if (task.path().filename() == self) continue;
    std::string name;
    std::getline(std::ifstream(task.path() / "comm"), name);
    names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

/// Ends thread pools by a trial fork: libraries end them in their fork handlers. The child does nothing.
void let_pools_end() {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(0);
  if (pid < 0) fail(ErrorKind::io, "spawn", "cannot start a process: {}", std::strerror(errno));
  while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace

std::vector<std::string> other_threads() {
  if (threads_now().empty()) return {};
  let_pools_end();
  return threads_now();
}

void require_single_thread() {
  const auto others = other_threads();
  if (others.empty()) return;
  fail(ErrorKind::unsupported, "spawn",
       "this process has {} other thread{} ({}), and children forked from it could hang; call spawn early in main, "
       "before tensors are computed with, lockstep::init() is called or threads are started",
       others.size(), others.size() == 1 ? "" : "s", fmt::join(others, ", "));
}

OneThreadEach::OneThreadEach() {
  if (omp_set_num_threads != nullptr && omp_get_max_threads != nullptr) {
    openmp_ = omp_get_max_threads();
    omp_set_num_threads(1);
  }
  if (openblas_set_num_threads != nullptr && openblas_get_num_threads != nullptr) {
    openblas_ = openblas_get_num_threads();
    openblas_set_num_threads(1);
  }
}

OneThreadEach::~OneThreadEach() {
  if (openmp_) omp_set_num_threads(*openmp_);
  if (openblas_) openblas_set_num_threads(*openblas_);
}

}  // namespace lockstep::cluster
