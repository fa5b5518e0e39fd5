// Times MPI_Allreduce of floats itself, in place and blocking, as a peer for `lockstep bench all_reduce`.
// bench/vs_all_reduce.py runs it:
//
//   mpirun -n 2 mpi_all_reduce 1024 65536
//
// Rank 0 prints one JSON object a size: {"bytes": N, "us": T}.
#include <mpi.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

namespace {

double seconds_of(std::vector<float>& data, std::int64_t times) {
  MPI_Barrier(MPI_COMM_WORLD);
  const double start = MPI_Wtime();
  for (std::int64_t i = 0; i < times; ++i) {
    MPI_Allreduce(MPI_IN_PLACE, data.data(), static_cast<int>(data.size()), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  }
  return (MPI_Wtime() - start) / static_cast<double>(times);
}

/// The median of five batches of some 20 ms, as `lockstep bench` takes it.
double measure(std::int64_t bytes) {
  constexpr double kBatchSeconds = 0.02;
  std::vector<float> data(static_cast<std::size_t>(bytes) / sizeof(float));
  const double once = seconds_of(data, 3);
  auto times = std::clamp<std::int64_t>(static_cast<std::int64_t>(kBatchSeconds / std::max(once, 1e-7)), 2, 10'000);
  MPI_Bcast(&times, 1, MPI_INT64_T, 0, MPI_COMM_WORLD);
  std::vector<double> batches;
  for (int i = 0; i < 5; ++i) {
    std::fill(data.begin(), data.end(), 0.0F);
    batches.push_back(seconds_of(data, times));
  }
  std::nth_element(batches.begin(), batches.begin() + 2, batches.end());
  return batches[2];
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (int i = 1; i < argc; ++i) {
    std::int64_t bytes = 0;
    const char* const end = argv[i] + std::strlen(argv[i]);
    if (const auto parsed = std::from_chars(argv[i], end, bytes); parsed.ptr != end || bytes < 4) {
      std::fprintf(stderr, "mpi_all_reduce: \"%s\" is not a number of bytes\n", argv[i]);
      MPI_Abort(MPI_COMM_WORLD, 2);
    }
    const double seconds = measure(bytes);
    if (rank == 0) std::printf("{\"bytes\": %lld, \"us\": %.3f}\n", static_cast<long long>(bytes), seconds * 1e6);
  }
  MPI_Finalize();
  return 0;
}
