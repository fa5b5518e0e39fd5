#include <lockstep/base/error.h>
#include <lockstep/base/log.h>
#include <lockstep/comm/collectives.h>
#include <lockstep/mirrored/reducer.h>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/torch.h>

#include <algorithm>
#include <utility>

namespace lockstep::mirrored {
namespace {

constexpr std::string_view kWhere = "data_parallel";

std::vector<at::Tensor> tensors_of(const std::vector<NamedTensor>& named) {
  std::vector<at::Tensor> tensors;
  for (const auto& each : named) tensors.push_back(each.tensor);
  return tensors;
}

bool same_memory(const at::Tensor& a, const at::Tensor& b) {
  return a.is_same(b) || (a.data_ptr() == b.data_ptr() && a.strides() == b.strides() && a.sizes() == b.sizes());
}

/// Rank 0's order of arrival for all; what did not arrive there comes last, in reverse order of registration.
std::vector<std::size_t> agree_on_order(const std::vector<std::size_t>& arrivals, std::size_t count,
                                        const Group& group) {
  std::vector<std::int64_t> order(arrivals.begin(), arrivals.end());
  for (auto index = static_cast<std::int64_t>(count); index-- > 0;) {
    if (std::find(order.begin(), order.end(), index) == order.end()) order.push_back(index);
  }
  at::Tensor shared = torch::tensor(order, torch::kLong);
  broadcast(shared, group, 0);
  const auto* begin = shared.data_ptr<std::int64_t>();
  return {begin, begin + shared.numel()};
}

}  // namespace

Reducer::Reducer(std::vector<NamedTensor> parameters, const BucketLimits& limits, bool mean, const Group& group,
                 CoalescedBroadcast* buffers)
    : group_(group),
      mean_(mean),
      buffers_(buffers),
      buckets_(tensors_of(parameters), limits, mean ? ReduceOp::mean : ReduceOp::sum, group) {
  for (auto& each : parameters) {
    Slot slot;
    slot.name = std::move(each.name);
    slot.parameter = std::move(each.tensor);
    slots_.push_back(std::move(slot));
  }
  hook_gradients();
}

void Reducer::hook_gradients() {
  for (std::size_t index = 0; index < slots_.size(); ++index) {
    GradientCallbacks callbacks;
    if (!mean_) callbacks.before = [this, index] { before_gradient(slots_[index]); };
    callbacks.after = [this, index](bool got_gradient) { after_gradient(index, got_gradient); };
    hooks_.emplace_back(slots_[index].parameter, std::move(callbacks));
  }
}

/// Only where gradients are summed: an old sum G that a new gradient is added to must enter the next sum once, not once
/// for each rank, so each rank keeps G / size of it. A mean needs no such care: the mean of equal G is G.
void Reducer::before_gradient(Slot& slot) {
  if (!std::exchange(slot.reduced, false)) return;
  at::Tensor& gradient = slot.parameter.mutable_grad();
  if (!gradient.defined()) return;
  torch::NoGradGuard no_grad;
  gradient.div_(group_.size());
}

void Reducer::after_gradient(std::size_t index, bool got_gradient) {
  Slot& slot = slots_[index];
  slot.used = slot.used || got_gradient;
  if (!round_open_) {
    if (!synchronize_) return;
    finish_at_end_of_backward();
    open_round();
  }
  const bool first = !std::exchange(slot.arrived, true);
  if (!buckets_.laid_out()) {
    if (first) arrivals_.push_back(index);
    return;
  }
  const std::size_t bucket = buckets_.place(index).bucket;
  if (bucket < launched_) {
    fail(ErrorKind::unsupported, kWhere,
         "parameter \"{}\" got a second gradient in one backward, from a backward inside it, after the first was sent; "
         "run this backward under no_sync() and call backward_without_data() after it",
         slot.name);
  }
  if (slot.used) settle(index);
  if (first && --missing_[bucket] == 0) launch_complete_buckets();
  make_progress();
}

void Reducer::round_without_gradients() {
  if (!synchronize_) return;
  if (round_open_) fail(ErrorKind::invalid_argument, kWhere, "backward_without_data() was called inside a backward");
  open_round();
  finish_round();
}

void Reducer::open_round() {
  // What an abandoned round has sent must arrive before its memory is used again.
  for (; waited_ < launched_; ++waited_) buckets_.wait(waited_);
  launched_ = tested_ = waited_ = 0;
  for (auto& slot : slots_) slot.arrived = slot.settled = slot.contributes = false;
  missing_.clear();
  for (std::size_t bucket = 0; bucket < buckets_.count(); ++bucket) missing_.push_back(buckets_.members(bucket).size());
  arrivals_.clear();
  unused_here_.clear();
  round_open_ = true;
}

void Reducer::finish_at_end_of_backward() {
  /// When backward throws, autograd drops the callback without calling it, and with it this.
  struct Ending {
    std::weak_ptr<Reducer> reducer;
    bool reached = false;
    ~Ending() {
      if (reached) return;
      if (const auto alive = reducer.lock()) alive->abandon_round();
    }
  };
  auto ending = std::make_shared<Ending>();
  ending->reducer = weak_from_this();
  at_end_of_backward([ending] {
    ending->reached = true;
    if (const auto alive = ending->reducer.lock()) alive->finish_round();
  });
}

void Reducer::finish_round() {
  torch::NoGradGuard no_grad;
  try {
    if (!buckets_.laid_out()) lay_out();
    while (launched_ < buckets_.count()) launch_next();
    if (buffers_ != nullptr) buffers_->start();
    for (; waited_ < buckets_.count(); ++waited_) take_results(waited_);
    if (buffers_ != nullptr) buffers_->finish();
  } catch (...) {
    abandon_round();
    throw;
  }
  round_open_ = false;
  report_unused();
}

void Reducer::abandon_round() {
  if (!std::exchange(round_open_, false)) return;
  ++abandoned_;
  for (auto& slot : slots_) slot.kept.reset();
}

void Reducer::lay_out() { buckets_.lay_out(parameters(), agree_on_order(arrivals_, slots_.size(), group_)); }

/// Makes the place in the bucket hold what this rank sends.
void Reducer::settle(std::size_t index) {
  Slot& slot = slots_[index];
  at::Tensor& gradient = slot.parameter.mutable_grad();
  at::Tensor place = view(index);
  torch::NoGradGuard no_grad;
  slot.settled = true;
  slot.contributes = slot.used && gradient.defined();
  if (!gradient.defined()) {
    place.zero_();
    return;
  }
  if (gradient.layout() != at::kStrided) {
    fail(ErrorKind::unsupported, kWhere,
         "parameter \"{}\" got a sparse gradient, which cannot be reduced with the dense ones; use the dense form "
         "(EmbeddingOptions().sparse(false), for one)",
         slot.name);
  }
  const bool in_place = same_memory(gradient, place);
  if (!in_place) place.copy_(gradient);
  if (slot.contributes) {
    if (!in_place) gradient = place;
    return;
  }
  // Nobody may have a gradient, and then `.grad()` must stay as it was although its bucket is reduced.
  if (in_place) slot.kept = gradient.clone();
  if (!mean_ && slot.reduced) place.div_(group_.size());
}

void Reducer::launch_complete_buckets() {
  while (launched_ < buckets_.count() && missing_[launched_] == 0) launch_next();
}

void Reducer::launch_next() {
  const auto& members = buckets_.members(launched_);
  std::vector<std::size_t> unused;
  for (std::size_t position = 0; position < members.size(); ++position) {
    const std::size_t index = members[position].parameter;
    if (!slots_[index].settled) settle(index);
    if (!slots_[index].contributes) unused.push_back(position);
  }
  buckets_.launch(launched_, unused, abandoned_);
  ++launched_;
}

void Reducer::make_progress() {
  while (tested_ < launched_ && buckets_.test(tested_)) ++tested_;
}

void Reducer::take_results(std::size_t bucket) {
  buckets_.wait(bucket);
  const auto& members = buckets_.members(bucket);
  for (std::size_t position = 0; position < members.size(); ++position) {
    Slot& slot = slots_[members[position].parameter];
    const at::Tensor& place = view(members[position].parameter);
    if (slot.contributes || buckets_.used_on_any_rank(bucket, position)) {
      slot.parameter.mutable_grad() = place;
      slot.reduced = true;
    } else if (slot.kept.defined()) {
      at::Tensor(place).copy_(slot.kept);
    }
    if (!slot.contributes) unused_here_.push_back(slot.name);
    slot.kept.reset();
    slot.used = false;
  }
}

void Reducer::report_unused() {
  if (reported_unused_ || unused_here_.empty()) return;
  reported_unused_ = true;
  log_debug("data_parallel: no gradient reached {} of {} parameters in this backward: {}", unused_here_.size(),
            slots_.size(), fmt::join(unused_here_, ", "));
}

std::vector<at::Tensor> Reducer::parameters() const {
  std::vector<at::Tensor> tensors;
  for (const auto& slot : slots_) tensors.push_back(slot.parameter);
  return tensors;
}

}  // namespace lockstep::mirrored
