#include <lockstep/comm/mpi/block.h>

#include <lockstep/comm/mpi/runtime.h>

#include <array>
#include <limits>

namespace lockstep::detail::mpi {
namespace {

constexpr std::int64_t kPiece = std::int64_t{1} << 30;

// pieces * 2^30 bytes and a rest, one after the other.
MPI_Datatype make_long_type(std::int64_t bytes) {
  const auto pieces = static_cast<int>(bytes / kPiece);
  const auto rest = static_cast<int>(bytes % kPiece);
  MPI_Datatype piece = MPI_DATATYPE_NULL;
  MPI_Datatype whole_pieces = MPI_DATATYPE_NULL;
  check(MPI_Type_contiguous(static_cast<int>(kPiece), MPI_BYTE, &piece), "MPI_Type_contiguous");
  check(MPI_Type_contiguous(pieces, piece, &whole_pieces), "MPI_Type_contiguous");

  const std::array<int, 2> counts = {1, rest};
  const std::array<MPI_Aint, 2> places = {0, static_cast<MPI_Aint>(pieces * kPiece)};
  const std::array<MPI_Datatype, 2> types = {whole_pieces, MPI_BYTE};
  MPI_Datatype whole = MPI_DATATYPE_NULL;
  check(MPI_Type_create_struct(2, counts.data(), places.data(), types.data(), &whole), "MPI_Type_create_struct");
  check(MPI_Type_commit(&whole), "MPI_Type_commit");
  MPI_Type_free(&whole_pieces);
  MPI_Type_free(&piece);
  return whole;
}

}  // namespace

Block::Block(std::int64_t bytes) : count_(1) {
  if (bytes <= std::numeric_limits<int>::max()) {
    count_ = static_cast<int>(bytes);
  } else {
    type_ = make_long_type(bytes);
  }
}

Block::~Block() {
  // MPI keeps a freed type until the operations that use it are done.
  if (type_ != MPI_BYTE && running()) MPI_Type_free(&type_);
}

}  // namespace lockstep::detail::mpi
