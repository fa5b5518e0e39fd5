// A record of the gathers of the last step; the next step starts its gathers in this order as long as it follows the
// record.
#include <lockstep/global/dispatch/prefetch.h>

#include <lockstep/global/tensor_state.h>

#include <ATen/ATen.h>

#include <algorithm>

namespace lockstep::global {

Prefetch::Prefetch(std::vector<at::Tensor> parameters, std::size_t in_flight)
    : parameters_(std::move(parameters)), most_(in_flight) {}

void Prefetch::begin_step() {
  drop();
  by_memory_.clear();
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!is_global(parameters_[i])) continue;
    const auto& local = state_of(parameters_[i]).local;
    if (local.numel() > 0) by_memory_.emplace(local.storage().unsafeGetStorageImpl(), i);
  }
  seen_.clear();
  in_step_ = true;
  as_expected_ = true;
}

void Prefetch::end_step() {
  in_step_ = false;
  drop();
  expected_ = std::move(seen_);
  seen_.clear();
}

/// Waits for unneeded gathers, because they may read the memory of parameters, which are written to next.
void Prefetch::drop() {
  while (!in_flight_.empty()) {
    auto gather = std::move(in_flight_.front().gather);
    in_flight_.pop_front();
    ++counts_.begun_in_vain;
    try {
      gather.work.wait();
    } catch (const std::exception&) {  // the caller of a later collective gets the error
    }
  }
}

void Prefetch::begin_next() {
  if (!as_expected_) return;
  std::size_t next = in_flight_.empty() ? seen_.size() : in_flight_.back().number + 1;
  for (; in_flight_.size() < most_ && next < expected_.size(); ++next) {
    const auto& wanted = expected_[next];
    const auto& state = state_of(parameters_[wanted.parameter]);
    const auto part = state.local.as_strided(wanted.local_sizes, wanted.local_strides, wanted.local_offset);
    in_flight_.push_back({.number = next,
                          .gather = begin_gather(part, wanted.sizes, wanted.format, *state.mesh,
                                                 wanted.from->placements, wanted.to->placements)});
  }
  counts_.most_in_flight = std::max(counts_.most_in_flight, static_cast<std::int64_t>(in_flight_.size()));
}

void Prefetch::before_write(const at::Tensor& tensor) {
  const auto& local = state_of(tensor).local;
  if (in_flight_.empty() || !local.has_storage()) return;
  if (by_memory_.contains(local.storage().unsafeGetStorageImpl())) drop();
}

std::optional<at::Tensor> Prefetch::take(const at::Tensor& tensor, const Sharding* needed) {
  const auto& state = state_of(tensor);
  if (!in_step_ || state.fetched || !state.local.has_storage() || state.local.is_conj() || state.local.is_neg()) {
    return std::nullopt;
  }
  const auto found = by_memory_.find(state.local.storage().unsafeGetStorageImpl());
  if (found == by_memory_.end() || !is_one_gather(state.sharding->placements, needed->placements, state.mesh->sizes()))
    return std::nullopt;
  Wanted wanted{.parameter = found->second,
                .local_sizes = state.local.sizes().vec(),
                .local_strides = state.local.strides().vec(),
                .local_offset = state.local.storage_offset(),
                .sizes = tensor.sizes().vec(),
                .format = tensor.suggest_memory_format(),
                .from = state.sharding,
                .to = needed};
  const auto number = seen_.size();
  if (as_expected_ && (number >= expected_.size() || !(expected_[number] == wanted))) {
    as_expected_ = false;  // the order differs from the last step
    drop();
  }
  ++counts_.gathers;
  std::optional<BegunGather> begun;
  if (!in_flight_.empty() && in_flight_.front().number == number) {
    ++counts_.begun_early;
    begun = std::move(in_flight_.front().gather);
    in_flight_.pop_front();
  }
  if (!begun) {
    begun = begin_gather(state.local, tensor.sizes(), wanted.format, *state.mesh, state.sharding->placements,
                         needed->placements);
  }
  seen_.push_back(std::move(wanted));
  begin_next();
  return finish_gather(std::move(*begun));
}

}  // namespace lockstep::global
