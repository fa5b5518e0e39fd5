#include <lockstep/comm/mpi/runtime.h>

#include <lockstep/base/error.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <string>

namespace lockstep::detail::mpi {
namespace {

// MPI is a state of the whole process, and so is whether it may be finalized.
std::atomic<bool>& may_finalize() {
  static std::atomic<bool> value{true};
  return value;
}

/// MPI_Initialized and MPI_Finalized may be asked at any time, and do not fail.
bool flag_of(int (*question)(int*)) noexcept {
  int flag = 0;
  question(&flag);
  return flag != 0;
}

void finalize_at_exit() {
  if (may_finalize() && running()) MPI_Finalize();
}

}  // namespace

void start() {
  if (flag_of(MPI_Finalized)) {
    fail(ErrorKind::unsupported, "connect",
         "MPI was finalized in this process and cannot be started again; connect before MPI_Finalize");
  }
  if (flag_of(MPI_Initialized)) return;
  int provided = MPI_THREAD_SINGLE;
  check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided), "MPI_Init_thread");
  // An error is told as an Error instead of ending the process.
  check(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  std::atexit(finalize_at_exit);
}

void never_finalize() { may_finalize() = false; }

bool running() noexcept { return flag_of(MPI_Initialized) && !flag_of(MPI_Finalized); }

void check(int code, std::string_view what) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  fail(ErrorKind::peer_lost, "mpi", "{} failed: {}", what, std::string(text.data(), static_cast<std::size_t>(length)));
}

}  // namespace lockstep::detail::mpi
