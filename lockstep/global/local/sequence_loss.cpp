// Local forms of ctc_loss on a part of the batch, with the lengths and targets of this rank's sequences.
#include <lockstep/global/local/across_ranks.h>

#include <ATen/ATen.h>

#include <cmath>
#include <numeric>

namespace lockstep::global {
namespace {

constexpr std::int64_t kBatch = 1;

std::int64_t sum_of(const std::vector<std::int64_t>& values, const Part& part) {
  const auto first = values.begin() + part.begin;
  return std::accumulate(first, first + part.size, std::int64_t{0});
}

void keep_part(LocalCall& call, std::string_view lengths, const Part& part) {
  const auto all = call.argument(lengths).toIntVector();
  const auto first = all.begin() + part.begin;
  call.argument(lengths) = std::vector<std::int64_t>(first, first + part.size);
}

/// Checks the lengths of all sequences, which every rank has, so that an error is thrown on all ranks.
void check_lengths(const LocalCall& call, const at::Tensor& targets) {
  const auto steps = call.plan.call.info("log_probs").sizes[0];
  const auto inputs = call.argument("input_lengths").toIntVector();
  const auto lengths = call.argument("target_lengths").toIntVector();
  const auto batch = static_cast<std::size_t>(call.plan.call.info("log_probs").sizes[kBatch]);
  TORCH_CHECK(inputs.size() == batch, "ctc_loss: ", inputs.size(), " input_lengths for a batch of ", batch);
  TORCH_CHECK(lengths.size() == batch, "ctc_loss: ", lengths.size(), " target_lengths for a batch of ", batch);
  for (std::size_t i = 0; i < batch; ++i) {
    TORCH_CHECK(inputs[i] >= 0 && inputs[i] <= steps, "ctc_loss: input_lengths[", i, "] is ", inputs[i],
                ", and log_probs have ", steps, " steps");
    TORCH_CHECK(lengths[i] >= 0 && (targets.dim() == 1 || lengths[i] <= targets.size(1)), "ctc_loss: target_lengths[",
                i, "] is ", lengths[i], ", and the rows of targets are not that long");
  }
  if (targets.dim() == 1) {
    const auto all = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
    TORCH_CHECK(all == targets.size(0), "ctc_loss: target_lengths add up to ", all, ", and there are ", targets.size(0),
                " targets");
  }
}

/// Restricts the arguments to this rank's sequences. Returns whether there are any.
bool keep_own_sequences(LocalCall& call) {
  if (axes_that_divide(call, placements_of_input(call, "log_probs"), kBatch).empty()) return true;
  const auto part = part_of_input(call, "log_probs", kBatch);
  const auto targets = call.argument("targets").toTensor();
  check_lengths(call, targets);
  if (targets.dim() == 1) {  // concatenated targets
    const auto lengths = call.argument("target_lengths").toIntVector();
    call.argument("targets") =
        targets.narrow(0, sum_of(lengths, {.begin = 0, .size = part.begin}), sum_of(lengths, part));
  }
  keep_part(call, "input_lengths", part);
  keep_part(call, "target_lengths", part);
  return part.size > 0;
}

}  // namespace

void form_of_sequence_loss(LocalCall& call) {
  if (call.plan.outputs.empty()) return run_operator(call);
  if (!keep_own_sequences(call)) {
    const auto options = call.argument("log_probs").toTensor().options();
    const auto none = at::zeros(call.local_output_sizes(0), options);
    const auto no_steps = at::zeros(call.local_output_sizes(1), options);
    call.stack.clear();
    for (const auto& each : {none, no_steps}) call.stack.emplace_back(each);
    return;
  }
  run_operator(call);
  // The result's size is given by the longest target of all ranks.
  const auto steps = call.stack[1].toTensor();
  const auto missing = call.plan.outputs[1].shape.sizes[2] - steps.size(2);
  if (missing > 0) call.stack[1] = at::constant_pad_nd(steps, {0, missing}, -INFINITY);
}

void form_of_sequence_loss_backward(LocalCall& call) {
  if (call.plan.outputs.empty() || keep_own_sequences(call)) return run_operator(call);
  call.give(at::zeros_like(call.argument("log_probs").toTensor()));
}

}  // namespace lockstep::global
