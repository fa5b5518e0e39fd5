// The training step: forward and backward of each batch, one vote, the reduction of gradients, overflow check, update.
// Votes are numbers at the beginning of one tensor.
#include <lockstep/base/error.h>
#include <lockstep/train/modes/training_step.h>

#include <fmt/format.h>
#include <torch/torch.h>

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

}  // namespace

Vote::Vote(const StepVotes& own, const std::vector<double>& numbers, const Group& group)
    : sums_(tensor_of(own, numbers)), work_(all_reduce_async(sums_, group)) {}

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

}  // namespace lockstep::train
