// The states of a round: opened by the first gradient, buckets launched in a fixed order, ended by autograd's callback,
// or given up after an exception and then completed at the start of the next round.
#include <lockstep/mirrored/reducer.h>

#include <lockstep/base/error.h>
#include <lockstep/base/log.h>
#include <lockstep/comm/arguments.h>
#include <lockstep/comm/collectives.h>
#include <lockstep/comm/group.h>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/torch.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <utility>

namespace lockstep::mirrored {
namespace {

constexpr std::string_view kWhere = "data_parallel";

template <typename Items>
std::vector<at::Tensor> tensors_of(const Items& items, at::Tensor Items::value_type::*tensor) {
  std::vector<at::Tensor> tensors;
  for (const auto& item : items) tensors.push_back(item.*tensor);
  return tensors;
}

/// The order of buckets for all ranks: rank 0's order of arrival; parameters without a gradient there are last, in
/// reverse order of registration.
std::vector<std::size_t> agree_on_order(const std::vector<std::size_t>& arrivals, std::size_t count,
                                        const Group& group) {
  std::vector<std::int64_t> order(arrivals.begin(), arrivals.end());
  std::vector<bool> arrived(count, false);
  for (const std::size_t index : arrivals) arrived[index] = true;
  for (std::size_t index = count; index-- > 0;) {
    if (!arrived[index]) order.push_back(static_cast<std::int64_t>(index));
  }
  at::Tensor shared = torch::tensor(order, torch::kLong);
  broadcast(shared, group, 0);
  const auto* begin = shared.data_ptr<std::int64_t>();
  return {begin, begin + shared.numel()};
}

/// "float32[2, 3]"
std::string form_of(const at::Tensor& parameter) { return detail::describe(parameter); }

/// The number of a reducer, different from those of the next 255 reducers of the group.
std::uint8_t agree_on_number(const Group& group) {
  static std::atomic<std::int64_t> next{1};
  at::Tensor number = torch::tensor({next++}, torch::kLong);
  broadcast(number, group, 0);
  return static_cast<std::uint8_t>(number.item<std::int64_t>() & 0xff);
}

/// At least one: the marks and votes of a round are in a bucket.
std::vector<NamedTensor>& at_least_one(std::vector<NamedTensor>& parameters) {
  if (parameters.empty()) parameters.push_back({"", torch::zeros({1})});
  return parameters;
}

}  // namespace

Reducer::Reducer(ReducedParameters parameters, const BucketLimits& limits, bool mean, const Group& group,
                 CoalescedBroadcast* buffers)
    : group_(group),
      mean_(mean),
      buffers_(buffers),
      count_(std::move(parameters.count)),
      buckets_(tensors_of(at_least_one(parameters.trainable), &NamedTensor::tensor), limits,
               mean ? ReduceOp::mean : ReduceOp::sum, group, agree_on_number(group)) {
  for (auto& each : parameters.trainable) {
    GradientSlot slot;
    slot.name = std::move(each.name);
    slot.parameter = std::move(each.tensor);
    slot.form = form_of(slot.parameter);
    slots_.push_back(std::move(slot));
  }
  for (auto& each : parameters.of_rows) {
    RowSlot slot;
    slot.name = std::move(each.name);
    slot.parameter = std::move(each.tensor);
    slot.form = form_of(slot.parameter);
    row_slots_.push_back(std::move(slot));
  }
  hook_gradients();
  hook_rows();
  for (const auto& each : parameters.frozen) watch_frozen(each);
  parameters_at_first_ = count_();
}

void Reducer::hook_gradients() {
  for (std::size_t index = 0; index < slots_.size(); ++index) {
    if (!slots_[index].parameter.requires_grad()) continue;
    GradientCallbacks callbacks;
    if (!mean_) callbacks.before = [this, index] { share_old_sum(slots_[index], group_.size()); };
    callbacks.after = [this, index](bool got_gradient) { gradient_arrived(index, got_gradient); };
    callbacks.replaced = [this] { follow_replaced_memory(); };
    hooks_.emplace_back(slots_[index].parameter, std::move(callbacks));
  }
}

void Reducer::watch_frozen(const NamedTensor& frozen) {
  frozen_hooks_.emplace_back(frozen.tensor, [this, name = frozen.name] {
    if (!synchronize_) return;
    fail(ErrorKind::invalid_argument, kWhere,
         "parameter \"{}\" did not require a gradient when DataParallel was made, so its gradient is not reduced; make "
         "a new DataParallel after requires_grad changed",
         name);
  });
}

void Reducer::follow_replaced_memory() {
  const auto follow = [this](GradientHook& hook, const auto& slot) {
    if (!hook.follow()) return;
    if (const auto now = form_of(slot.parameter); now != slot.form) {
      fail(ErrorKind::invalid_argument, kWhere,
           "parameter \"{}\" was {} when DataParallel was made, and is {} now; make a new DataParallel, and a new "
           "optimizer, after such a change",
           slot.name, slot.form, now);
    }
    replaced_ = true;
  };
  for (std::size_t index = 0; index < hooks_.size(); ++index) follow(hooks_[index], slots_[index]);
  for (std::size_t index = 0; index < row_hooks_.size(); ++index) follow(row_hooks_[index], row_slots_[index]);
}

void Reducer::require_all_parameters() const {
  if (const auto now = count_(); now != parameters_at_first_) {
    fail(ErrorKind::invalid_argument, kWhere,
         "the module had {} parameters when DataParallel was made, and has {} now; the gradients of new ones are not "
         "reduced: make a new DataParallel, and a new optimizer, after such a change",
         parameters_at_first_, now);
  }
}

void Reducer::require_replaced_everywhere() const {
  const int ranks = buckets_.ranks_that_replaced(buckets_.count() - 1);
  if (ranks == 0 || ranks == group_.size()) return;
  fail(ErrorKind::mismatch, kWhere,
       "before this backward the memory of parameters was replaced on {} of {} ranks, so their numbers may differ; "
       "load weights on all ranks, or on rank 0 before DataParallel is made, which sends rank 0's to all",
       ranks, group_.size());
}

void Reducer::hook_rows() {
  for (std::size_t index = 0; index < row_slots_.size(); ++index) {
    GradientCallbacks callbacks;
    if (!mean_) callbacks.before = [this, index] { share_old_rows(row_slots_[index], group_.size()); };
    callbacks.after = [this, index](bool got_gradient) {
      row_slots_[index].used = row_slots_[index].used || got_gradient;
      require_rows(row_slots_[index]);
      if (is_in_round()) make_progress();
    };
    callbacks.replaced = [this] { follow_replaced_memory(); };
    row_hooks_.emplace_back(row_slots_[index].parameter, std::move(callbacks));
  }
}

bool Reducer::is_in_round() {
  if (!round_open_ && synchronize_) {
    finish_at_end_of_backward();
    open_round();
  }
  return round_open_;
}

void Reducer::gradient_arrived(std::size_t index, bool got_gradient) {
  GradientSlot& slot = slots_[index];
  slot.used = slot.used || got_gradient;
  if (!is_in_round()) return;
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

// ---- the round ----------------------------------------------------------------------------------------------------

void Reducer::open_round() {
  if (owes_round_) make_up_for_round();
  follow_replaced_memory();
  for (auto& slot : slots_) start_round(slot);
  missing_.clear();
  for (std::size_t bucket = 0; bucket < buckets_.count(); ++bucket) missing_.push_back(buckets_.members(bucket).size());
  arrivals_.clear();
  launched_ = tested_ = 0;
  collective_failed_ = false;
  round_open_ = true;
}

void Reducer::finish_at_end_of_backward() {
  /// Destroyed with the callback. When backward throws, autograd drops the callback without calling it.
  struct Ending {
    std::weak_ptr<Reducer> reducer;
    bool reached = false;
    ~Ending() {
      if (reached) return;
      if (const auto alive = reducer.lock()) alive->give_up_round();
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
    while (launched_ < buckets_.count()) launch_settled();
    start_buffers();
    together([&] { exchange_rows(row_slots_, /*gave_up=*/false, mean_, group_); });
    take_results();
    finish_buffers();
  } catch (...) {
    give_up_round();
    throw;
  }
  round_open_ = false;
  replaced_ = false;
  report_unused();
  require_that_nobody_gave_up();
  require_replaced_everywhere();
  require_all_parameters();
  for (int i = 0; i < kVotes; ++i) votes_.at(static_cast<std::size_t>(i)) = buckets_.votes(buckets_.count() - 1, i);
  completed_backward(group_);
}

void Reducer::give_up_round() noexcept {
  if (!std::exchange(round_open_, false)) return;
  owes_round_ = !collective_failed_;
  if (!buckets_.laid_out()) return;
  for (std::size_t index = 0; index < slots_.size(); ++index) leave_place(slots_[index], place(index));
}

void Reducer::make_up_for_round() {
  torch::NoGradGuard no_grad;
  owes_round_ = false;
  if (!buckets_.laid_out()) lay_out();
  while (launched_ < buckets_.count()) launch_next(/*gave_up=*/true);
  start_buffers();
  together([&] { exchange_rows(row_slots_, /*gave_up=*/true, mean_, group_); });
  for (std::size_t bucket = 0; bucket < buckets_.count(); ++bucket) together([&] { buckets_.wait(bucket); });
  finish_buffers();
  if (buckets_.ranks_that_gave_up(buckets_.count() - 1) < group_.size()) require_that_nobody_gave_up();
}

/// Checks the marks in the last bucket, which every rank sends after the success or failure of its backward.
void Reducer::require_that_nobody_gave_up() {
  const int gave_up = buckets_.ranks_that_gave_up(buckets_.count() - 1);
  if (gave_up == 0) return;
  fail(ErrorKind::mismatch, kWhere,
       "{} of {} ranks had an exception in this backward and went on to the next; all ranks must skip the same steps. "
       "The gradients of this step are undetermined",
       gave_up, group_.size());
}

// ---- its parts ----------------------------------------------------------------------------------------------------

template <typename Call>
void Reducer::together(const Call& call) {
  try {
    call();
  } catch (...) {
    collective_failed_ = true;
    throw;
  }
}

void Reducer::lay_out() {
  std::vector<std::size_t> order;
  together([&] { order = agree_on_order(arrivals_, slots_.size(), group_); });
  buckets_.lay_out(slots_, order);
}

void Reducer::settle(std::size_t index) { mirrored::settle(slots_[index], place(index), mean_ ? 1 : group_.size()); }

/// Starts all complete buckets except the last, which signals that this rank reached the end of backward.
void Reducer::launch_complete_buckets() {
  while (launched_ + 1 < buckets_.count() && missing_[launched_] == 0) launch_settled();
}

void Reducer::launch_settled() {
  for (const auto& member : buckets_.members(launched_)) {
    if (!slots_[member.parameter].settled) settle(member.parameter);
  }
  launch_next(/*gave_up=*/false);
}

void Reducer::launch_next(bool gave_up) {
  const auto& members = buckets_.members(launched_);
  std::vector<std::size_t> unused;
  for (std::size_t position = 0; position < members.size(); ++position) {
    if (!slots_[members[position].parameter].contributes) unused.push_back(position);
  }
  together([&] { buckets_.launch(launched_, unused, {gave_up, replaced_, own_votes_}); });
  ++launched_;
}

void Reducer::make_progress() {
  while (tested_ < launched_ && buckets_.test(tested_)) ++tested_;
}

void Reducer::start_buffers() {
  if (buffers_ != nullptr) together([&] { buffers_->start(/*check=*/false); });
}

void Reducer::finish_buffers() {
  if (buffers_ != nullptr) together([&] { buffers_->finish(); });
}

void Reducer::take_results() {
  for (std::size_t bucket = 0; bucket < buckets_.count(); ++bucket) {
    together([&] { buckets_.wait(bucket); });
    const auto& members = buckets_.members(bucket);
    for (std::size_t position = 0; position < members.size(); ++position) {
      GradientSlot& slot = slots_[members[position].parameter];
      const bool used = slot.contributes || buckets_.used_on_any_rank(bucket, position);
      take_result(slot, place(members[position].parameter), used);
    }
  }
}

void Reducer::report_unused() {
  if (reported_unused_ || !log_enabled(LogLevel::debug)) return;
  std::vector<std::string_view> names;
  for (const auto& slot : slots_) {
    if (!slot.contributes && !slot.name.empty()) names.push_back(slot.name);
  }
  if (names.empty()) return;
  reported_unused_ = true;
  log_debug("data_parallel: in this backward no gradient reached {} of {} parameters: {}", names.size(), slots_.size(),
            fmt::join(names, ", "));
}

}  // namespace lockstep::mirrored
