// Placements as text, read in several notations: Shard(0) or S0, Replicate() or R, and OneFlow's split and broadcast.
#include <lockstep/base/error.h>
#include <lockstep/base/text.h>
#include <lockstep/global/global_tensor.h>

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
