// Placements as text, read in several notations: Shard(0) or S0, Replicate() or R, and OneFlow's split and broadcast;
// the arithmetic of even splits, whose parts differ by one row at most, nested over the axes of a mesh; and
// transitions.
#include <lockstep/base/error.h>
#include <lockstep/base/text.h>
#include <lockstep/global/global_tensor.h>
#include <lockstep/global/placement.h>

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <limits>
#include <optional>

namespace lockstep {
namespace {

/// The name of an operator as in collectives. Not their name(), because that needs libtorch, and placements must not.
std::string_view name_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum: return "sum";
    case ReduceOp::mean: return "mean";
    case ReduceOp::min: return "min";
    case ReduceOp::max: return "max";
    case ReduceOp::product: break;
  }
  return "product";
}

std::string lower_without_blanks(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (!std::isspace(static_cast<unsigned char>(c)))
      out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return out;
}

/// The text `inside` of "name(inside)"; nullopt if `text` has another form.
std::optional<std::string_view> inside(std::string_view text, std::string_view name) {
  if (!text.starts_with(name)) return std::nullopt;
  text.remove_prefix(name.size());
  if (text.size() < 2 || text.front() != '(' || text.back() != ')') return std::nullopt;
  return text.substr(1, text.size() - 2);
}

std::optional<Placement> shard_of(std::string_view number) {
  const auto dim = parse_integer(number);
  if (!dim || *dim < 0 || *dim > std::numeric_limits<std::int32_t>::max()) return std::nullopt;
  return Shard(*dim);
}

std::optional<Placement> partial_of(std::string_view op) {
  for (const ReduceOp each : kPartialOps) {
    if (op == name_of(each)) return Partial(each);
  }
  return std::nullopt;
}

/// Parses one placement; `text` is in lower case without blanks.
std::optional<Placement> parse_one(std::string_view text) {
  for (const std::string_view prefix : {"flow.sbp.", "oneflow.sbp.", "sbp."}) {
    if (text.starts_with(prefix)) text.remove_prefix(prefix.size());
  }
  for (const std::string_view each : {"replicate()", "replicate", "broadcast()", "broadcast", "r", "b"}) {
    if (text == each) return Replicate();
  }
  for (const std::string_view each : {"partial()", "partial", "partial_sum()", "partial_sum", "p"}) {
    if (text == each) return Partial();
  }
  if (const auto dim = inside(text, "shard")) return shard_of(*dim);
  if (const auto dim = inside(text, "split")) return shard_of(*dim);
  if (const auto dim = inside(text, "s")) return shard_of(*dim);
  if (const auto op = inside(text, "partial")) return partial_of(*op);
  if (const auto op = inside(text, "p")) return partial_of(*op);
  if (text.starts_with('s')) return shard_of(text.substr(1));
  return std::nullopt;
}

std::vector<std::string> split_at_commas(std::string_view text) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == ',') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

}  // namespace

Placement Shard(std::int64_t dim) {
  if (dim < 0 || dim > std::numeric_limits<std::int32_t>::max()) {
    fail(ErrorKind::invalid_argument, "Shard", "dimensions count from 0, not {}", dim);
  }
  return {.kind = Placement::Kind::shard, .dim = static_cast<std::int32_t>(dim)};
}

Placement Replicate() { return {}; }

Placement Partial(ReduceOp op) {
  if (op == ReduceOp::product) {
    fail(ErrorKind::invalid_argument, "Partial", "a partial value is a sum, mean, min or max of parts, not a product");
  }
  return {.kind = Placement::Kind::partial, .op = op};
}

std::string to_string(const Placement& placement) {
  switch (placement.kind) {
    case Placement::Kind::shard: return fmt::format("Shard({})", placement.dim);
    case Placement::Kind::partial: return fmt::format("Partial({})", name_of(placement.op));
    case Placement::Kind::replicate: break;
  }
  return "Replicate()";
}

std::string to_string(const Placements& placements) {
  std::string out = "[";
  for (const auto& each : placements) out += (out.size() > 1 ? ", " : "") + to_string(each);
  return out + "]";
}

Placements parse_placements(std::string_view text) {
  std::string plain = lower_without_blanks(text);
  const bool listed = plain.size() >= 2 &&
                      ((plain.front() == '[' && plain.back() == ']') || (plain.front() == '(' && plain.back() == ')'));
  if (listed) plain = plain.substr(1, plain.size() - 2);
  Placements placements;
  for (const auto& part : split_at_commas(plain)) {
    const auto placement = parse_one(part);
    if (!placement) {
      fail(ErrorKind::invalid_argument, "placements",
           "\"{}\" in \"{}\" is not a placement; write Shard(0), Replicate(), Partial(sum) or S0, R, P, one for each "
           "axis of the mesh, e.g. [Shard(0), Replicate()]",
           part, text);
    }
    placements.push_back(*placement);
  }
  return placements;
}

}  // namespace lockstep

namespace lockstep::global {

Part part_of(std::int64_t size, int parts, int index) {
  const std::int64_t each = size / parts;
  const std::int64_t larger = size % parts;
  return {.begin = index * each + std::min<std::int64_t>(index, larger), .size = each + (index < larger ? 1 : 0)};
}

Part part_of(std::int64_t size, std::int64_t dim, const Placements& placements, std::span<const int> mesh_sizes,
             std::span<const int> coordinate) {
  Part part{.begin = 0, .size = size};
  for (std::size_t axis = 0; axis < placements.size(); ++axis) {
    if (!placements[axis].is_shard(dim)) continue;
    const Part inner = part_of(part.size, mesh_sizes[axis], coordinate[axis]);
    part = {.begin = part.begin + inner.begin, .size = inner.size};
  }
  return part;
}

std::vector<int> coordinate_of(int rank, std::span<const int> mesh_sizes) {
  std::vector<int> coordinate(mesh_sizes.size());
  for (std::size_t axis = mesh_sizes.size(); axis-- > 0;) {
    coordinate[axis] = rank % mesh_sizes[axis];
    rank /= mesh_sizes[axis];
  }
  return coordinate;
}

std::vector<std::int64_t> local_sizes(std::span<const std::int64_t> sizes, const Placements& placements,
                                      std::span<const int> mesh_sizes, std::span<const int> coordinate) {
  std::vector<std::int64_t> local(sizes.begin(), sizes.end());
  for (std::size_t dim = 0; dim < local.size(); ++dim) {
    local[dim] = part_of(local[dim], static_cast<std::int64_t>(dim), placements, mesh_sizes, coordinate).size;
  }
  return local;
}

namespace {

class SplitWay {
 public:
  SplitWay(Placements from, const Placements& to) : now_(std::move(from)), to_(to) {}

  std::vector<Step> steps() && {
    reduce_where_possible();
    release_shards();
    arrive();
    return std::move(steps_);
  }

 private:
  void step(std::size_t axis, const Placement& to) {
    if (now_[axis] == to) return;
    steps_.push_back({.axis = axis, .from = now_[axis], .to = to});
    now_[axis] = to;
  }

  /// Whether `axis` may now shard the dimension of its goal: all earlier axes that will shard that dimension already
  /// do, and no later axis does.
  bool may_shard(std::size_t axis) const {
    const auto dim = to_[axis].dim;
    for (std::size_t other = 0; other < now_.size(); ++other) {
      const bool should = other < axis && to_[other].is_shard(dim);
      if (other != axis && now_[other].is_shard(dim) != should) return false;
    }
    return true;
  }

  /// First the reductions whose result is already the goal, while tensors are small.
  void reduce_where_possible() {
    for (std::size_t axis = 0; axis < now_.size(); ++axis) {
      if (!now_[axis].is_partial() || now_[axis] == to_[axis]) continue;
      if (!to_[axis].is_shard()) {
        step(axis, Replicate());
      } else if (may_shard(axis)) {
        step(axis, to_[axis]);
      }
    }
  }

  /// Whether `axis` shards a dimension whose sharding will change on `axis` or on an earlier axis.
  bool must_release(std::size_t axis) const {
    const auto dim = now_[axis].dim;
    for (std::size_t outer = 0; outer <= axis; ++outer) {
      if (now_[outer].is_shard(dim) != to_[outer].is_shard(dim)) return true;
    }
    return false;
  }

  void release_shards() {
    std::vector<bool> release(now_.size());
    for (std::size_t axis = 0; axis < now_.size(); ++axis) release[axis] = now_[axis].is_shard() && must_release(axis);
    for (std::size_t axis = now_.size(); axis-- > 0;) {
      if (!release[axis]) continue;
      const bool directly = to_[axis].is_shard() && to_[axis] != now_[axis] && may_shard(axis);
      step(axis, directly ? to_[axis] : Replicate());
    }
  }

  void arrive() {
    for (std::size_t axis = 0; axis < now_.size(); ++axis) {
      if (now_[axis].is_partial() && to_[axis].is_partial() && now_[axis] != to_[axis]) step(axis, Replicate());
      step(axis, to_[axis]);
    }
  }

  Placements now_;
  const Placements& to_;
  std::vector<Step> steps_;
};

}  // namespace

std::vector<Step> transitions(const Placements& from, const Placements& to) { return SplitWay(from, to).steps(); }

double traffic(const Placement& from, const Placement& to, double bytes, int ranks) {
  const double others = static_cast<double>(ranks - 1) / ranks;
  if (from == to || from.is_replicate()) return 0;
  if (from.is_partial()) return to.is_shard() ? bytes * others : 2 * bytes * others;
  return to.is_shard() ? bytes * others / ranks : bytes * others;
}

}  // namespace lockstep::global
