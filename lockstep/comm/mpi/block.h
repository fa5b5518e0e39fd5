// MPI datatypes for blocks of bytes, also longer ones than MPI's counts allow.
#pragma once

#include <lockstep/comm/mpi/api.h>

#include <cstdint>

namespace lockstep::detail::mpi {

/// A run of bytes as "count times type", also above the 2^31 - 1 that MPI can count to: then it is one element of a
/// type of its own.
class Block {
 public:
  explicit Block(std::int64_t bytes);
  ~Block();
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  int count() const { return count_; }
  MPI_Datatype type() const { return type_; }

 private:
  int count_;
  MPI_Datatype type_ = MPI_BYTE;
};

}  // namespace lockstep::detail::mpi
