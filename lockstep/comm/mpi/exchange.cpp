// An allgather and a broadcast of texts of fixed length on MPI_COMM_WORLD, and a check that launcher and MPI match.
#include <lockstep/comm/mpi/exchange.h>

#include <lockstep/base/error.h>
#include <lockstep/base/this_host.h>
#include <lockstep/comm/meet/rendezvous.h>
#include <lockstep/comm/mpi/progress.h>
#include <lockstep/comm/mpi/runtime.h>

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <array>
#include <sstream>

namespace lockstep::detail::mpi {
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
