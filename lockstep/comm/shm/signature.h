// The signature of a collective: the values that all ranks must agree on.
#pragma once

#include <lockstep/comm/collectives.h>
#include <lockstep/comm/shm/dtype.h>

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace lockstep::shm {

enum class Kind : std::uint8_t {
  barrier,
  exchange,
  allocate,
  all_reduce,
  reduce,
  broadcast,
  all_gather,
  reduce_scatter,
  all_to_all,
  gather,
  scatter,
  refused,  ///< entered in place of a call whose arguments break a rule
};

std::string_view name(Kind kind);

/// Each rank's description of a collective in shared memory: plain bytes without padding.
struct Signature {
  static constexpr int kMaxDims = 8;

  Kind kind = Kind::barrier;
  DType dtype = DType::other;
  std::uint8_t op = 0;    ///< ReduceOp, where there is one
  std::uint8_t dims = 0;  ///< used entries of `sizes`
  std::int32_t root = -1;
  std::uint64_t trace = 0;  ///< hash of the caller's trace (comm/operator_trace.h), 0: none
  std::uint64_t step = 0;   ///< number of the step on that
  std::array<std::int64_t, kMaxDims> sizes{};

  /// Keeps the shape; the product of all dimensions from the eighth on is kept as one.
  void set_sizes(std::span<const std::int64_t> all);
  bool operator==(const Signature&) const = default;
};

/// Two different signatures share a hash with a chance of about 2^-64.
std::uint64_t hash(const Signature& signature);

/// "all_reduce sum of float32[2, 3]", "broadcast of int64[4] from 1", "barrier".
std::string describe(const Signature& signature);

}  // namespace lockstep::shm
