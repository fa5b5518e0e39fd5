// The simulation of one step.
#include <lockstep/plan/cost/cost_model.h>
#include <lockstep/plan/cost/reductions.h>
#include <lockstep/plan/cost/simulate.h>

#include <algorithm>

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

}  // namespace lockstep::plan
