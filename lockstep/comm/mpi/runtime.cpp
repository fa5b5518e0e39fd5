#include <lockstep/comm/mpi/runtime.h>

#include <lockstep/base/error.h>
#include <lockstep/base/unique_fd.h>

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <string>
#include <utility>

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

constexpr std::string_view kEndedByMpi =
    "[connect] MPI_Init_thread ended this process (above, MPI says why). Where another MPI program ran before under "
    "the "
    "same mpirun: Open MPI starts one for each process of mpirun, and no second one after it. Start each program with "
    "an "
    "mpirun of its own, or pass MASTER_ADDR and MASTER_PORT to both (-x), where ranks meet without MPI\n";

// While it lives, a child process waits to say what MPI's messages do not: an MPI_Init that fails ends its process, and
// leaves no time for more. The child makes system calls only, as this process may have threads.
class LastWords {
 public:
  explicit LastWords(std::string_view words) {
    Pipe pipe = make_pipe();
    well_ = std::move(pipe.write_end);
    child_ = ::fork();
    if (child_ != 0) return;
    well_.reset();
    char said = 0;
    ssize_t count = 0;
    while ((count = ::read(pipe.read_end.get(), &said, 1)) < 0 && errno == EINTR) {
    }
    if (count == 0) count = ::write(STDERR_FILENO, words.data(), words.size());
    ::_exit(0);
  }
  LastWords(const LastWords&) = delete;
  LastWords& operator=(const LastWords&) = delete;
  ~LastWords() {
    if (child_ <= 0) return;
    const char well = 1;
    if (::write(well_.get(), &well, 1) != 1) well_.reset();
    while (::waitpid(child_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }

 private:
  UniqueFd well_;
  pid_t child_ = -1;
};

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
  const LastWords words(kEndedByMpi);
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
