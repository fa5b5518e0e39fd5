// Votes as numbers at the beginning of one tensor.
#include <lockstep/train/modes/votes.h>

#include <torch/torch.h>

#include <array>

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

}  // namespace lockstep::train
