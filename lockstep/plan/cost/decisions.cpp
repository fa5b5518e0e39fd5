// The cache of decisions for operators and their input placements.
#include <lockstep/base/error.h>
#include <lockstep/global/placement.h>
#include <lockstep/global/rules/choose.h>
#include <lockstep/plan/cost/cost_model.h>
#include <lockstep/plan/cost/decisions.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace lockstep::plan {
namespace {

Collective collective_of(const global::Step& step) {
  if (step.from.is_partial()) return step.to.is_shard() ? Collective::reduce_scatter : Collective::all_reduce;
  return step.to.is_shard() ? Collective::all_to_all : Collective::all_gather;
}

/// A key with two bytes for each axis, which identify a placement.
std::string packed(const Placements& placements) {
  std::string text;
  for (const auto& each : placements) {
    text += static_cast<char>(static_cast<int>(each.kind) * 8 + (each.is_partial() ? static_cast<int>(each.op) : 0));
    text += static_cast<char>(each.is_shard() ? each.dim : 0);
  }
  return text;
}

/// The placements of an input after a partial value was reduced, which all later readers use.
Placements finished(const Placements& now, const Placements& needed) {
  Placements after = now;
  for (std::size_t axis = 0; axis < now.size(); ++axis) {
    if (now[axis].is_partial() && needed[axis].is_replicate()) after[axis] = Replicate();
  }
  return after;
}

bool has_partial(const Placements& placements) {
  for (const auto& each : placements) {
    if (each.is_partial()) return true;
  }
  return false;
}

}  // namespace

void Traffic::add(Collective kind, Bytes of, double times) {
  count[static_cast<std::size_t>(kind)] += times;
  bytes[static_cast<std::size_t>(kind)] += of * times;
}

void Traffic::add(const Traffic& other, double times) {
  for (std::size_t kind = 0; kind < kCollectives; ++kind) {
    count[kind] += other.count[kind] * times;
    bytes[kind] += other.bytes[kind] * times;
  }
}

Decisions::Decisions(const Program& program, std::vector<int> mesh_sizes, CostModel model)
    : program_(program), mesh_sizes_(std::move(mesh_sizes)), model_(std::move(model)) {
  number(Placements(mesh_sizes_.size()));
}

PlacedAs Decisions::number(const Placements& placements) {
  const auto [found, is_new] = numbers_.emplace(packed(placements), static_cast<PlacedAs>(known_.size()));
  if (is_new) known_.push_back(placements);
  return found->second;
}

Seconds Decisions::redistribution(const TensorInfo& info, const Placements& from, const Placements& to,
                                  Traffic& traffic) const {
  Seconds total{};
  Placements now = from;
  for (const auto& step : global::transitions(from, to)) {
    Placements next = now;
    next[step.axis] = step.to;
    if (mesh_sizes_[step.axis] > 1) {
      const auto before = bytes_of_part(info, now, mesh_sizes_);
      const auto after = bytes_of_part(info, next, mesh_sizes_);
      total += model_.compute(copying_of_step(step, before, after));
      if (!step.from.is_replicate()) {
        const auto kind = collective_of(step);
        const auto bytes = kind == Collective::all_gather ? after : before;
        total += model_.collective(kind, step.axis, bytes);
        traffic.add(kind, bytes);
      }
    }
    now = std::move(next);
  }
  return total;
}

const Decision& Decisions::decide(std::uint32_t op, std::span<const PlacedAs> inputs,
                                  std::span<const PlacedAs> wanted) {
  key_.clear();
  key_.push_back(static_cast<char16_t>(op));
  key_.push_back(static_cast<char16_t>(op >> 16));
  for (const auto each : inputs) key_.push_back(each);
  for (const auto each : wanted) key_.push_back(each);
  const auto found = decisions_.find(key_);
  if (found != decisions_.end()) return found->second;
  auto key = key_;
  return decisions_.emplace(std::move(key), make(op, inputs, wanted)).first->second;
}

/// Whether the user's strategy decides on the inputs: then the candidates are its signatures alone.
bool Decisions::follow_strategy(std::uint32_t op) {
  const auto& given = program_.operators[op];
  if (!given.strategy) return false;
  const auto signatures = global::signatures_of(*given.strategy, given.call, given.rule, mesh_sizes_, {});
  if (!signatures) return false;
  for (const auto& each : *signatures) {
    candidates_[op].push_back(&signatures_.emplace_back(std::vector<global::Signature>{each}));
  }
  return true;
}

/// The candidates of an operator by axis; axes of equal size share them.
std::span<const std::vector<global::Signature>* const> Decisions::candidates(std::uint32_t op) {
  if (candidates_.empty()) candidates_.resize(program_.operators.size());
  auto& by_axis = candidates_[op];
  if (!by_axis.empty() || follow_strategy(op)) return by_axis;
  const auto& call = program_.operators[op].call;
  const auto* rule = program_.operators[op].rule;
  int all_ranks = 1;
  for (const int ranks : mesh_sizes_) all_ranks *= ranks;
  for (std::size_t axis = 0; axis < mesh_sizes_.size(); ++axis) {
    const auto same = std::find(mesh_sizes_.begin(), mesh_sizes_.end(), mesh_sizes_[axis]) - mesh_sizes_.begin();
    if (static_cast<std::size_t>(same) < axis) {
      by_axis.push_back(by_axis[static_cast<std::size_t>(same)]);
    } else {
      by_axis.push_back(&signatures_.emplace_back(global::candidates_of(rule, call, mesh_sizes_[axis], all_ranks)));
    }
  }
  return by_axis;
}

Decision Decisions::make(std::uint32_t op, std::span<const PlacedAs> inputs, std::span<const PlacedAs> wanted) {
  const auto& call = program_.operators[op].call;
  std::vector<Placements> now;
  for (const auto each : inputs) now.push_back(placements(each));
  std::vector<std::optional<Placements>> asked;
  for (const auto each : wanted) {
    asked.push_back(each == kNotWanted ? std::nullopt : std::optional(placements(each)));
  }
  const auto choice = global::choose_among(candidates(op), call, now, asked, mesh_sizes_);

  Decision decision;
  std::vector<global::Sizes> input_parts;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto& info = call.tensors[i];
    PlacedAs after = inputs[i];
    input_parts.push_back(info.defined ? largest_part(info, choice.inputs[i], mesh_sizes_) : global::Sizes{});
    if (info.defined && !info.ordinary && choice.inputs[i] != now[i]) {
      decision.redistribution += redistribution(info, now[i], choice.inputs[i], decision.traffic);
      const auto then = finished(now[i], choice.inputs[i]);
      after = number(then);
      if (then != choice.inputs[i]) decision.copies += bytes_of_part(info, choice.inputs[i], mesh_sizes_);
    }
    decision.inputs.push_back(after);
  }
  const auto& strategy = program_.operators[op].strategy;
  const auto moved =
      strategy && !call.in_place ? global::outputs_of(*strategy, call, choice.outputs, mesh_sizes_) : choice.outputs;
  std::vector<global::Sizes> output_parts;
  for (std::size_t i = 0; i < call.outputs.size(); ++i) {
    const auto& info = call.outputs[i];
    Placements lies = choice.outputs[i];
    output_parts.push_back(largest_part(info, lies, mesh_sizes_));
    if (i < asked.size() && asked[i] && !has_partial(*asked[i]) && lies != *asked[i]) {
      decision.redistribution += redistribution(info, lies, *asked[i], decision.traffic);
      lies = *asked[i];
    }
    if (lies == choice.outputs[i] && moved[i] != lies) {
      decision.redistribution += redistribution(info, lies, moved[i], decision.traffic);
      lies = moved[i];
    }
    decision.outputs.push_back(number(lies));
    decision.output_bytes.push_back(info.defined ? bytes_of_part(info, lies, mesh_sizes_) : Bytes{});
  }
  decision.compute = model_.compute(work_of(call, input_parts, output_parts));
  for (const auto& each : inner_collectives(call, choice.inputs, mesh_sizes_)) {
    decision.communication += model_.collective(each.kind, each.axis, each.bytes);
    decision.traffic.add(each.kind, each.bytes);
  }
  return decision;
}

}  // namespace lockstep::plan
