// The training step: forward and backward of each batch, one vote, the reduction of gradients, overflow check, update.
// Votes are numbers at the beginning of one tensor. And the factory that chooses between the global and the mirrored
// run, with a rank's share of the data for each.
#include <lockstep/base/error.h>
#include <lockstep/comm/observe.h>
#include <lockstep/comm/operator_trace.h>
#include <lockstep/train/modes/mesh_config.h>
#include <lockstep/train/modes/parallel_run.h>
#include <lockstep/train/modes/wrapper.h>

#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace lockstep::train {
namespace {

constexpr std::array kVotes{&StepVotes::end,      &StepVotes::stop,    &StepVotes::save,
                            &StepVotes::evaluate, &StepVotes::overdue, &StepVotes::writing};

at::Tensor tensor_of(const StepVotes& own, const std::vector<double>& numbers) {
  std::vector<double> values;
  for (const auto vote : kVotes) values.push_back(own.*vote ? 1 : 0);
  values.insert(values.end(), numbers.begin(), numbers.end());
  return torch::tensor(values, torch::kDouble);
}

Work start_vote(at::Tensor& sums, const Group& group) {
  const CallPlace place(name_place(group, "what the ranks agree on in a step"));
  return all_reduce_async(sums, group);
}

}  // namespace

Vote::Vote(const StepVotes& own, const std::vector<double>& numbers, const Group& group)
    : sums_(tensor_of(own, numbers)), work_(start_vote(sums_, group)) {}

StepVotes Vote::agreed() const {
  StepVotes agreed;
  for (std::size_t i = 0; i < kVotes.size(); ++i) agreed.*kVotes[i] = sums_.data_ptr<double>()[i] > 0;
  return agreed;
}

double Vote::sum(std::size_t number) const { return sums_.data_ptr<double>()[kVotes.size() + number]; }

StepLosses take_step(StepView& view, const StepRequest& request, samples::Batches& batches) {
  const auto at = [&](StepPoint point) {
    if (request.at) request.at(point);
  };
  std::function<void()> sending;
  if (request.watches_sending) sending = [&] { at(StepPoint::sending); };
  StepSums sums;
  view.begin();
  for (std::int64_t i = 0; i < request.batches; ++i) {
    const bool first = i == 0, last = i + 1 == request.batches;
    const auto loss = view.forward(batches.next().value(), request, last, sums);
    if (first && request.inspect && loss.defined()) request.inspect(loss);
    if (first) at(StepPoint::first_forward);
    if (last) {
      at(StepPoint::before_backward);
      view.vote(sums, request);
      at(StepPoint::last_forward);
    }
    view.backward(loss, request, last, sending);
  }
  const auto losses = view.reduce(sums, request);
  at(StepPoint::reduced);
  if (losses.overflow) return losses;
  const double per_item = sums.items > 0 ? static_cast<double>(request.samples) / sums.items : 1.0;
  view.scale(per_item / request.loss_scale.value_or(1.0), request.lr);
  at(StepPoint::after_backward);
  view.update(request.lr, at);
  return losses;
}

void require_finite(double loss, const StepRequest& request, std::optional<int> rank) {
  if (std::isfinite(loss)) return;
  fail(
      ErrorKind::numeric, "train",
      "epoch: {} step: {}, loss is {}{}; training cannot go on. A lower optimizer.lr, a warm-up or train.clip_norm may "
      "help",
      request.epoch, request.step_in_epoch, loss, rank ? fmt::format(" on rank {}", *rank) : "");
}

void leave_out_infinite(StepLosses& losses) {
  for (auto* loss : {&losses.local, &losses.global}) {
    if (*loss && !std::isfinite(**loss)) loss->reset();
  }
}

std::int64_t bytes_of_mib(double mib) { return std::max<std::int64_t>(1, std::llround(mib * 1024.0 * 1024.0)); }

DataShare data_share(const ResolvedRun& config, const Group& group) {
  return is_global_mode(config.parallel) ? global_data_share(config.parallel, group.rank(), group.size())
                                         : DataShare{group.rank(), group.size()};
}

std::unique_ptr<ParallelRun> make_parallel_run(const ResolvedRun& config, const Model& model, const Group& group,
                                               const ForwardOptions& options, std::optional<TablePlace> tables) {
  wrap_module(config, *model.module, group);
  if (is_global_mode(config.parallel)) return make_global_run(config, model, group, options);
  return make_mirrored_run(config, model, group, options, std::move(tables));
}

}  // namespace lockstep::train
