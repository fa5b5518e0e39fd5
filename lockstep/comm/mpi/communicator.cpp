#include <lockstep/comm/mpi/communicator.h>

#include <lockstep/base/error.h>
#include <lockstep/comm/stores.h>

#include <fmt/format.h>

#include <limits>
#include <string>
#include <vector>

namespace lockstep::detail::mpi {
namespace {

// MPI's number of each rank of the group.
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

// Keeps groups that are made at the same time on different threads apart.
int creation_tag(const std::string& name) {
  unsigned hash = 0;
  for (const char c : name) hash = hash * 31 + static_cast<unsigned char>(c);
  return static_cast<int>(hash % 32767);  // the largest tag every MPI has
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

}  // namespace lockstep::detail::mpi
