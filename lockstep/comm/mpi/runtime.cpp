// The start of MPI with all threads allowed, its end at exit, errors as exceptions, and communicators of groups. And
// what ranks exchange before they have a store: an allgather and a broadcast of texts of fixed length on
// MPI_COMM_WORLD, and a check that launcher and MPI match.
#include <lockstep/comm/mpi/runtime.h>

#include <lockstep/base/error.h>
#include <lockstep/base/this_host.h>
#include <lockstep/base/unique_fd.h>
#include <lockstep/comm/meet/rendezvous.h>
#include <lockstep/comm/meet/stores.h>
#include <lockstep/comm/mpi/progress.h>

#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <limits>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::detail::mpi {
namespace {

// MPI is a state of the whole process, and so is the permission to finalize it.
std::atomic<bool>& may_finalize() {
  static std::atomic<bool> value{true};
  return value;
}

/// MPI_Initialized and MPI_Finalized may be called at any time, and do not fail.
bool flag_of(int (*question)(int*)) noexcept {
  int flag = 0;
  question(&flag);
  return flag != 0;
}

constexpr std::string_view kEndedByMpi =
    "[connect] MPI_Init_thread ended this process (MPI's reason is above). Where another MPI program ran before under "
    "the same mpirun: Open MPI starts one for each process of mpirun, and no second one after it. Start each program "
    "with an mpirun of its own, or pass MASTER_ADDR and MASTER_PORT to both (-x), where ranks meet without MPI\n";

// While it exists, a child process waits to print information that MPI's messages lack: an MPI_Init that fails ends its
// process at once. The child makes system calls only, because this process may have threads.
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

// The process that started MPI. A child that it forks runs the same exit handlers, and must not call MPI.
std::atomic<pid_t>& own_process() {
  static std::atomic<pid_t> value{0};
  return value;
}

// MPI_Finalize waits for all ranks. After a failure the other ranks may wait for this one; if it ends without
// MPI_Finalize, mpirun ends them.
void finalize_at_exit(int status, void*) {
  if (status == 0 && may_finalize() && own_process() == ::getpid() && running()) MPI_Finalize();
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
  // MPI returns an error code, which becomes an Error, instead of ending the process.
  check(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  own_process() = ::getpid();
  ::on_exit(finalize_at_exit, nullptr);
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

namespace {

// The MPI rank of each rank of the group.
std::vector<int> mpi_ranks(const BackendContext& context) {
  int mine = 0;
  int job_size = 0;
  check(MPI_Comm_rank(MPI_COMM_WORLD, &mine), "MPI_Comm_rank");
  check(MPI_Comm_size(MPI_COMM_WORLD, &job_size), "MPI_Comm_size");
  if (job_size < context.size) {
    fail(ErrorKind::unsupported, "connect",
         "backend \"mpi\" needs all {} ranks of the group in one MPI job, this one has {}; start the program with "
         "mpirun "
         "or choose another backend",
         context.size, job_size);
  }
  const auto key = [](int rank) { return fmt::format("mpi_rank/{}", rank); };
  context.store->set(key(context.rank), to_bytes(std::to_string(mine)));
  std::vector<int> ranks;
  for (int rank = 0; rank < context.size; ++rank) ranks.push_back(std::stoi(to_text(context.store->get(key(rank)))));
  return ranks;
}

class GroupOfRanks {
 public:
  explicit GroupOfRanks(const std::vector<int>& ranks) {
    MPI_Group everybody = MPI_GROUP_NULL;
    check(MPI_Comm_group(MPI_COMM_WORLD, &everybody), "MPI_Comm_group");
    const int result = MPI_Group_incl(everybody, static_cast<int>(ranks.size()), ranks.data(), &group_);
    MPI_Group_free(&everybody);
    check(result, "MPI_Group_incl");
  }
  ~GroupOfRanks() { MPI_Group_free(&group_); }
  GroupOfRanks(const GroupOfRanks&) = delete;
  GroupOfRanks& operator=(const GroupOfRanks&) = delete;

  MPI_Group get() const { return group_; }

 private:
  MPI_Group group_ = MPI_GROUP_NULL;
};

// Distinguishes groups that are created at the same time on different threads.
int creation_tag(const std::string& name) {
  unsigned hash = 0;
  for (const char c : name) hash = hash * 31 + static_cast<unsigned char>(c);
  return static_cast<int>(hash % 32767);  // the largest tag that every MPI supports
}

}  // namespace

Communicator::Communicator(const BackendContext& context) {
  start();
  const GroupOfRanks group(mpi_ranks(context));
  check(MPI_Comm_create_group(MPI_COMM_WORLD, group.get(), creation_tag(context.name), &comm_),
        "MPI_Comm_create_group");
  check(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  int* limit = nullptr;
  int known = 0;
  check(MPI_Comm_get_attr(comm_, MPI_TAG_UB, &limit, &known), "MPI_Comm_get_attr");
  tag_limit_ = known != 0 ? *limit : 32767;
}

Communicator::~Communicator() {
  if (comm_ != MPI_COMM_NULL && running()) MPI_Comm_free(&comm_);
}

namespace {

void finish(Requests& requests, std::chrono::milliseconds timeout) {
  if (poll([&] { return requests.complete(); }, requests.bytes(), timeout)) return;
  never_finalize();
  fail(ErrorKind::timeout, "connect",
       "not all ranks of the MPI job called connect within {:.1f} s; read the logs of the others, or raise "
       "LOCKSTEP_START_TIMEOUT_S",
       static_cast<double>(timeout.count()) / 1000);
}

constexpr std::size_t kTextBytes = 512;

// A text as a tensor of fixed size, because Requests can keep a tensor alive for MPI.
at::Tensor to_tensor(const std::string& text) {
  auto bytes = at::zeros({kTextBytes}, at::TensorOptions().dtype(at::kByte));
  text.copy(static_cast<char*>(bytes.data_ptr()), kTextBytes - 1);
  return bytes;
}

std::string words_in(const at::Tensor& bytes) { return static_cast<const char*>(bytes.data_ptr()); }

// Extracts "Open MPI v4.1.4" or "MPICH Version: 4.0.2" from a longer text.
std::string library_version() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  check(MPI_Get_library_version(text.data(), &length), "MPI_Get_library_version");
  std::string version = text.data();
  version.resize(std::min(version.size(), version.find_first_of(",\n")));
  std::replace(version.begin(), version.end(), '\t', ' ');
  return version;
}

}  // namespace

void require_same(const World& world) {
  start();
  int rank = 0;
  int size = 0;
  check(MPI_Comm_rank(MPI_COMM_WORLD, &rank), "MPI_Comm_rank");
  check(MPI_Comm_size(MPI_COMM_WORLD, &size), "MPI_Comm_size");
  if (rank == world.rank && size == world.size) return;
  never_finalize();
  fail(ErrorKind::environment, "connect",
       "{} ({}) gives rank {} of {}, but MPI reports rank {} of {}: this Lockstep is built with {}, and the launcher "
       "belongs to another MPI. Start with the mpirun of that MPI, or set MASTER_ADDR and MASTER_PORT to the host of "
       "rank 0 and a free port there, where ranks meet without MPI",
       world.launcher, world.evidence, world.rank, world.size, rank, size, library_version());
}

bool all_on_one_host(std::chrono::milliseconds timeout) {
  start();
  int size = 0;
  check(MPI_Comm_size(MPI_COMM_WORLD, &size), "MPI_Comm_size");
  const auto mine = to_tensor(host_identity());
  const auto all = at::zeros({size, static_cast<std::int64_t>(kTextBytes)}, mine.options());
  Requests requests({mine, all});
  check(MPI_Iallgather(mine.data_ptr(), kTextBytes, MPI_BYTE, all.data_ptr(), kTextBytes, MPI_BYTE, MPI_COMM_WORLD,
                       requests.add()),
        "MPI_Iallgather");
  finish(requests, timeout);
  return all.eq(mine).all().item<bool>();
}

MpiEndpoint broadcast_from_rank_0(const MpiEndpoint& endpoint, std::chrono::milliseconds timeout) {
  start();
  const auto message = to_tensor(fmt::format("{} {}", endpoint.port, endpoint.host));
  Requests requests({message});
  check(MPI_Ibcast(message.data_ptr(), kTextBytes, MPI_BYTE, 0, MPI_COMM_WORLD, requests.add()), "MPI_Ibcast");
  finish(requests, timeout);

  MpiEndpoint received;
  std::istringstream text(words_in(message));
  text >> received.port >> received.host;
  return received;
}

}  // namespace lockstep::detail::mpi
