// The simulation of one step, the stream of its gradient reductions, and the lower bounds of single ones.
#include <lockstep/plan/cost/cost_model.h>
#include <lockstep/plan/cost/simulate.h>

#include <algorithm>
#include <cmath>
#include <optional>

namespace lockstep::plan {
namespace {

class Walk {
 public:
  Walk(const Program& program, Decisions& decisions, const Assignment& assignment, const BucketSizes& buckets)
      : program_(program),
        decisions_(decisions),
        reductions_(decisions, buckets),
        placed_(program.values.size(), kReplicated),
        bytes_(program.values.size()),
        unwritten_(program.values.size()),
        by_module_(program.modules.size()) {
    for (std::size_t i = 0; i < program.values.size(); ++i) begin(i, assignment);
  }

  void step(const Program::Step& step) {
    if (step.phase == Phase::optimizer) end_backward();
    if (step.phase == Phase::backward) in_backward_ = true;
    const auto& decision = decide(step);
    account(step, decision);
    for (std::size_t i = 0; i < step.inputs.size(); ++i) {
      if (step.inputs[i] != kNoValue) placed_[step.inputs[i]] = decision.inputs[i];
    }
    for (std::size_t i = 0; i < step.outputs.size(); ++i) write(step, decision, i);
    peak_ = std::max(peak_, live_ + decision.copies);
    for (const auto gradient : step.finishes_gradients) finish_gradient(step, gradient);
    for (const auto freed : step.frees) live_ -= std::exchange(bytes_[freed], {});
  }

  Prediction result(Detail detail) {
    end_backward();
    prediction_.cost = now_;
    prediction_.reduction = reductions_.total();
    prediction_.traffic.add(reductions_.traffic());
    prediction_.memory.activations = peak_;
    prediction_.memory.communication = reductions_.memory();
    if (detail == Detail::modules) share_reductions();
    return std::move(prediction_);
  }

 private:
  void begin(std::size_t index, const Assignment& assignment) {
    const auto& item = program_.values[index];
    placed_[index] = assignment[item.parameter.value_or(index)];
    const auto bytes = item.kept_times * part_bytes(index);
    auto& memory = prediction_.memory;
    switch (item.kind) {
      case ValueKind::parameter:
      case ValueKind::buffer: memory.parameters += item.times * part_bytes(index); break;
      case ValueKind::optimizer_state: memory.optimizer_state += item.times * part_bytes(index); break;
      case ValueKind::gradient:
        if (item.parameter) memory.gradients += item.times * part_bytes(index);
        break;
      case ValueKind::input:
        live_ += bytes_[index] = bytes;
        load(part_bytes(index));
        break;
      case ValueKind::activation: break;
    }
  }

  void load(Bytes part) {
    const auto spent = decisions_.model().compute(loading_of(part));
    now_ += spent;
    prediction_.compute += spent;
  }

  Bytes part_bytes(std::size_t index) const {
    return bytes_of_part(program_.values[index].info, decisions_.placements(placed_[index]), decisions_.mesh_sizes());
  }

  const Decision& decide(const Program::Step& step) {
    inputs_.clear();
    for (const auto input : step.inputs) inputs_.push_back(input == kNoValue ? kReplicated : placed_[input]);
    wanted_.clear();
    for (const auto output : step.outputs) {
      const bool own = output != kNoValue && !unwritten_[output] &&
                       std::find(step.inputs.begin(), step.inputs.end(), output) != step.inputs.end();
      wanted_.push_back(own ? placed_[output] : kNotWanted);
    }
    return decisions_.decide(step.op, inputs_, wanted_);
  }

  void account(const Program::Step& step, const Decision& decision) {
    now_ += step.times * decision.total();
    prediction_.compute += step.times * decision.compute;
    prediction_.communication += step.times * decision.communication;
    prediction_.redistribution += step.times * decision.redistribution;
    prediction_.traffic.add(decision.traffic, step.times);
    auto& module = by_module_[step.module];
    module.compute += step.times * decision.compute;
    module.communication += step.times * (decision.communication + decision.redistribution);
    for (const auto& bytes : decision.traffic.bytes) module.moved += step.times * bytes;
  }

  void write(const Program::Step& step, const Decision& decision, std::size_t i) {
    const auto output = step.outputs[i];
    if (output == kNoValue) return;
    placed_[output] = decision.outputs[i];
    unwritten_[output] = program_.operators[step.op].makes_unwritten;
    const auto& item = program_.values[output];
    if (item.kind != ValueKind::activation && item.kind != ValueKind::gradient) return;
    if (item.view_of || item.parameter) return;
    const auto bytes = item.kept_times * decision.output_bytes[i];
    live_ += bytes - bytes_[output];
    bytes_[output] = bytes;
  }

  void finish_gradient(const Program::Step& step, std::size_t gradient) {
    const auto& item = program_.values[gradient];
    const auto goal = placed_[*item.parameter];
    const auto module = program_.values[*item.parameter].module;
    reducing([&] { reductions_.add(item.info, placed_[gradient], goal, step.times, module, now_); });
    placed_[gradient] = goal;
  }

  /// Adds the time of reductions: copies are computation, the rest is waiting.
  void reducing(const auto& part) {
    const auto before = now_;
    const auto copied = reductions_.copied();
    part();
    const auto copying = reductions_.copied() - copied;
    prediction_.compute += copying;
    prediction_.exposed += now_ - before - copying;
  }

  void end_backward() {
    if (!in_backward_) return;
    in_backward_ = false;
    reducing([&] { reductions_.finish(now_); });
  }

  /// Distributes the waiting time over the modules in proportion to their reductions.
  void share_reductions() {
    prediction_.modules = by_module_;
    const double exposed = reductions_.total().value > 0 ? prediction_.exposed / reductions_.total() : 0;
    for (const auto& [module, spent] : reductions_.by_module()) {
      prediction_.modules[module].communication += exposed * spent.first;
      prediction_.modules[module].moved += spent.second;
    }
  }

  const Program& program_;
  Decisions& decisions_;
  ReductionStream reductions_;
  std::vector<PlacedAs> placed_;
  std::vector<Bytes> bytes_;
  std::vector<bool> unwritten_;
  std::vector<ModuleCost> by_module_;
  std::vector<PlacedAs> inputs_;
  std::vector<PlacedAs> wanted_;
  Prediction prediction_;
  Seconds now_{};
  Bytes live_{};
  Bytes peak_{};
  bool in_backward_ = false;
};

}  // namespace

Prediction simulate(const Program& program, Decisions& decisions, const Assignment& assignment, Detail detail,
                    const BucketSizes& buckets) {
  Walk walk(program, decisions, assignment, buckets);
  for (const auto& step : program.steps) walk.step(step);
  return walk.result(detail);
}

namespace {

/// The first axis on which a gradient must be reduced, and the collective for it.
std::optional<std::pair<std::size_t, Collective>> next_reduction(const Placements& now, const Placements& goal,
                                                                 std::span<const int> mesh_sizes) {
  for (std::size_t axis = 0; axis < now.size(); ++axis) {
    if (!now[axis].is_partial() || goal[axis].is_partial() || mesh_sizes[axis] == 1) continue;
    return std::pair(axis, goal[axis].is_shard() ? Collective::reduce_scatter : Collective::all_reduce);
  }
  return std::nullopt;
}

}  // namespace

void ReductionStream::add(const TensorInfo& info, PlacedAs from, PlacedAs to, double times, std::size_t module,
                          Seconds& now) {
  if (from == to) return;
  put({.info = info,
       .now = decisions_.placements(from),
       .goal = decisions_.placements(to),
       .times = times,
       .module = module,
       .bytes = times * bytes_of_part(info, decisions_.placements(from), decisions_.mesh_sizes())},
      now);
}

void ReductionStream::put(Pending gradient, Seconds& now) {
  const auto key = next_reduction(gradient.now, gradient.goal, decisions_.mesh_sizes());
  if (!key) {  // not partial: it is redistributed at once, without a bucket
    const auto spent = gradient.times * decisions_.redistribution(gradient.info, gradient.now, gradient.goal, traffic_);
    total_ += spent;
    now += spent;
    by_module_[gradient.module].first += spent;
    return;
  }
  auto& bucket = collecting_[*key];
  bucket.bytes += gradient.bytes;
  bucket.gradients.push_back(std::move(gradient));
  if (bucket.bytes < (first_ ? sizes_.first : sizes_.others)) return;
  first_ = false;
  start(*key, std::exchange(bucket, {}), now);
}

Seconds ReductionStream::copying(const Bucket& bucket, const Key& key, bool out) const {
  const auto [axis, kind] = key;
  const bool scattered = out && kind == Collective::reduce_scatter;
  Seconds total{};
  for (const auto& each : bucket.gradients) {
    const auto bytes = each.bytes / each.times;
    const auto copied = scattered ? bytes / decisions_.mesh_sizes()[axis] : bytes;
    total += each.times * decisions_.model().compute(copying_of(copied));
  }
  return total;
}

void ReductionStream::start(const Key& key, Bucket bucket, Seconds& now) {
  const auto [axis, kind] = key;
  // One entry may represent many layers, and so more than one bucket; a gradient is never split.
  Bytes largest{};
  for (const auto& each : bucket.gradients) largest = std::max(largest, each.bytes / each.times);
  const double pieces = std::max(1.0, std::floor(bucket.bytes / std::max(largest, sizes_.others)));
  const auto spent = pieces * decisions_.model().collective(kind, axis, bucket.bytes / pieces);
  traffic_.add(kind, bucket.bytes / pieces, pieces);
  total_ += spent;
  const double beside = decisions_.model().overlap;
  const auto copying_in = copying(bucket, key, /*out=*/false);
  copied_ += copying_in;
  now += copying_in + (1 - beside) * spent;
  free_at_ = std::max(free_at_, now) + beside * spent;
  const auto copying_out = copying(bucket, key, /*out=*/true);
  bool may_stay = kind == Collective::all_reduce;
  for (auto& each : bucket.gradients) {
    auto& [seconds, bytes] = by_module_[each.module];
    if (bucket.bytes.value > 0) seconds += spent * (each.bytes / bucket.bytes);
    bytes += each.bytes;
    each.now[axis] = each.goal[axis];
    each.bytes = each.times * bytes_of_part(each.info, each.now, decisions_.mesh_sizes());
    if (each.now == each.goal) continue;
    may_stay = false;
    again_.push_back(std::move(each));
  }
  if (!may_stay) copying_back_ += copying_out;
  const UnderWay one{.axis = axis,
                     .bytes = std::min(bucket.bytes / pieces, sizes_.others + largest),
                     .copying = may_stay ? copying_out / pieces : Seconds{}};
  const auto last = static_cast<int>(std::min<double>(pieces, kMostBucketsUnderWay));
  copying_back_ += (pieces - last) * one.copying;
  for (int i = 0; i < last; ++i) go_under_way(one);
}

void ReductionStream::go_under_way(UnderWay bucket) {
  const Bytes most{static_cast<double>(kMostBytesUnderWay)};
  while (under_way_.size() >= kMostBucketsUnderWay || (!under_way_.empty() && bytes_under_way_ + bucket.bytes > most)) {
    const auto& first = under_way_.front();
    copying_back_ += first.copying;
    bytes_under_way_ -= first.bytes;
    free_[first.axis].insert(first.piece.value);
    under_way_.pop_front();
  }
  auto& free = free_[bucket.axis];
  if (const auto smallest = free.lower_bound(bucket.bytes.value); smallest != free.end()) {
    bucket.piece.value = *smallest;
    free.erase(smallest);
  } else {
    bucket.piece = bucket.bytes;
    memory_ += bucket.bytes;
  }
  bytes_under_way_ += bucket.bytes;
  under_way_.push_back(bucket);
}

void ReductionStream::copy_back(Seconds& now) {
  now = std::max(now, free_at_) + copying_back_;
  copied_ += std::exchange(copying_back_, {});
}

void ReductionStream::finish(Seconds& now) {
  while (!collecting_.empty() || !again_.empty()) {
    for (auto& [key, bucket] : std::exchange(collecting_, {})) {
      if (!bucket.gradients.empty()) start(key, std::move(bucket), now);
    }
    copy_back(now);
    for (auto& each : std::exchange(again_, {})) put(std::move(each), now);
  }
  copy_back(now);
}

ReductionCosts reduction_costs(const Decisions& decisions, const TensorInfo& info, const Placements& from,
                               const Placements& to) {
  constexpr double kMany = 1e18;
  const auto sizes = decisions.mesh_sizes();
  const auto& model = decisions.model();
  ReductionCosts costs;
  Placements now = from;
  for (std::size_t axis = 0; axis < now.size(); ++axis) {
    if (!now[axis].is_partial() || to[axis].is_partial() || sizes[axis] == 1) continue;
    const bool scatters = to[axis].is_shard();
    const auto kind = scatters ? Collective::reduce_scatter : Collective::all_reduce;
    const auto bytes = bytes_of_part(info, now, sizes);
    costs.sending += model.collective(kind, axis, {kMany}).value / kMany * bytes.value;
    costs.copying_in += model.compute(copying_of(bytes)).value;
    if (scatters) costs.copying_out += model.compute(copying_of(bytes / sizes[axis])).value;
    now[axis] = to[axis];
  }
  return costs;
}

}  // namespace lockstep::plan
