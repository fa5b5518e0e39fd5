// Placements: how one logical tensor is distributed over the ranks along one axis of a mesh. Plain values and pure
// functions: thread-safe.
#pragma once

#include <lockstep/comm/collectives.h>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// One of Shard(dim), Replicate(), Partial(op). OneFlow calls them split, broadcast and partial_sum (S, B, P); a value
/// of MindSpore's strategy tuple greater than one is a Shard.
struct Placement {
  enum class Kind : std::uint8_t { replicate, shard, partial };

  Kind kind = Kind::replicate;
  ReduceOp op = ReduceOp::sum;  ///< of a partial placement: sum, mean, min or max
  std::int32_t dim = 0;         ///< of a shard: the sharded dimension, from 0

  bool is_replicate() const { return kind == Kind::replicate; }
  bool is_shard() const { return kind == Kind::shard; }
  bool is_shard(std::int64_t of_dim) const { return kind == Kind::shard && dim == of_dim; }
  bool is_partial() const { return kind == Kind::partial; }
  bool is_partial(ReduceOp of_op) const { return kind == Kind::partial && op == of_op; }

  friend bool operator==(const Placement&, const Placement&) = default;
};

/// One placement for each axis of the mesh. Where several axes shard the same dimension, the first axis divides the
/// dimension, the next axis divides each of these parts, and so on.
using Placements = std::vector<Placement>;

/// Rank i along the axis holds the i-th part of dimension `dim`. Part sizes differ by at most one row, larger parts
/// first; some parts are empty when there are fewer rows than ranks. Error(invalid_argument) for a negative `dim`.
Placement Shard(std::int64_t dim);
/// The reductions that a partial placement may have.
inline constexpr std::array kPartialOps{ReduceOp::sum, ReduceOp::mean, ReduceOp::max, ReduceOp::min};

/// Every rank along the axis holds the same values.
Placement Replicate();
/// The value is the reduction of the tensors that the ranks along the axis hold. Error(invalid_argument) for product.
Placement Partial(ReduceOp op = ReduceOp::sum);

/// "Shard(0)", "Replicate()", "Partial(sum)".
std::string to_string(const Placement& placement);
/// "[Shard(0), Replicate()]".
std::string to_string(const Placements& placements);

/// Parses "[Shard(0), Replicate()]" and shorter forms: without brackets; `S0`, `R` or `B`, `P`; or OneFlow's
/// `split(0)`, `broadcast`, `partial_sum` (also with `flow.sbp.` before them). Error(invalid_argument) that shows the
/// position of the mistake.
Placements parse_placements(std::string_view text);

}  // namespace lockstep
