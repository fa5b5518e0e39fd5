// c10d's TCPStore in a process of its own: this program run again, which a library constructor turns into the host.
#include <lockstep/base/environment.h>
#include <lockstep/base/error.h>
#include <lockstep/base/text.h>
#include <lockstep/cluster/c10d_store_host.h>
#include <lockstep/comm/meet/stores.h>
#include <lockstep/store/sockets.h>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <torch/cuda.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string_view>
#include <utility>

namespace lockstep::cluster {
namespace {

/// The environment variable that turns a program that loads this library into a C10dStoreHost's process. Its value is
/// "DESCRIPTOR:PARENT": a listening socket, and the pid of the process that started this one.
constexpr auto kStoreHostVariable = "LOCKSTEP_C10D_STORE_HOST";

/// The limit for stored values, connections and the server's threads together. Ranks store a few hundred bytes each.
constexpr rlim_t kMostStoredBytes = rlim_t{256} << 20;

/// The memory that this process uses of its own, as RLIMIT_DATA counts it.
rlim_t own_bytes() {
  std::ifstream status("/proc/self/status");
  std::string line;
  while (std::getline(status, line)) {
    if (line.starts_with("VmData:")) return static_cast<rlim_t>(std::strtoull(line.c_str() + 7, nullptr, 10)) << 10;
  }
  return 0;
}

/// Limits the memory: an allocation beyond the limit fails, and c10d closes the connection that caused it.
void limit_memory() {
  const auto most = own_bytes() + kMostStoredBytes;
  const rlimit limit{most, most};
  ::setrlimit(RLIMIT_DATA, &limit);
  std::ofstream("/proc/self/oom_score_adj") << 1000;  // the kernel kills this process before the launcher
}

/// The socket in the environment of a process that hosts a store; none when the variable is a leftover.
UniqueFd told_listener() {
  const char* const text = ::secure_getenv(kStoreHostVariable);
  if (text == nullptr) return UniqueFd();
  const std::string_view words = text;
  const auto colon = words.find(':');
  const auto fd = static_cast<int>(parse_integer(words.substr(0, colon)).value_or(-1));
  const auto parent = colon == std::string_view::npos ? std::nullopt : parse_integer(words.substr(colon + 1));
  ::unsetenv(kStoreHostVariable);
  if (parent != ::getppid()) return UniqueFd();
  return UniqueFd(fd);
}

/// The main loop of a C10dStoreHost's process. Other processes end it.
[[noreturn]] void live_as_store_host(UniqueFd listener) {
  ::prctl(PR_SET_NAME, "lockstep-c10d");
  sigset_t all;
  ::sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, nullptr);  // these signals are meant for the ranks
  try {
    limit_memory();
    const auto store = detail::serve_tcp_store(listener.get());
    while (true) ::pause();
  } catch (const std::exception& error) {
    ::dprintf(STDERR_FILENO, "lockstep run: cannot host c10d's store for programs without Lockstep: %s\n",
              error.what());
  }
  ::_exit(1);
}

[[gnu::constructor]] void serve_if_asked_to_host() {
  if (auto listener = told_listener()) live_as_store_host(std::move(listener));
}

}  // namespace

C10dStoreHost::C10dStoreHost(const std::vector<std::string>& addresses) {
  try {
    auto listening = store::listen_at(addresses.size() == 1 ? addresses : std::vector<std::string>(), 0);
    const int listener = listening.sockets.front().get();
    // c10d's server calls accept without polling first.
    ::fcntl(listener, F_SETFL, ::fcntl(listener, F_GETFL) & ~O_NONBLOCK);
    ChildOptions child;
    child.arguments = {"/proc/self/exe"};
    child.environment = current_environment();
    child.environment->insert_or_assign(kStoreHostVariable, fmt::format("{}:{}", listener, ::getpid()));
    child.kept_descriptors = {listener};
    child.out = ChildStream::discard;
    process_.emplace(child);
    port_ = listening.port;
  } catch (const std::exception& error) {
    fail(ErrorKind::io, "launch", "cannot host the rendezvous store of the ranks: {}", error.what());
  }
}

Helper C10dStoreHost::helper() const {
  return watch_helper("lockstep-c10d",
                      "the job goes on without it; a program without Lockstep that still uses the store at MASTER_PORT "
                      "fails there",
                      process_->pid());
}

int usable_gpus() { return static_cast<int>(torch::cuda::device_count()); }

}  // namespace lockstep::cluster
