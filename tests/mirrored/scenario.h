// What data parallel training must equal: the same done in one process, rank after rank.
#pragma once

#include <lockstep/base/error.h>
#include <lockstep/comm/group.h>
#include <lockstep/mirrored/data_parallel.h>

#include <torch/torch.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace lockstep::test {

/// By parameter, in the order of `parameters_of`; undefined where there is none.
using Gradients = std::vector<at::Tensor>;

/// A module and what each rank does with it in each step.
struct Scenario {
  std::function<std::shared_ptr<torch::nn::Module>()> make;  ///< the same on every call and rank
  std::function<at::Tensor(torch::nn::Module&, int rank, int step)> loss;
};

/// A scenario whose module is of type Net, made from a fixed seed, with `Net::loss(rank, step)`.
template <typename Net>
Scenario scenario_of() {
  return {[] {
            torch::manual_seed(7);
            return std::make_shared<Net>();
          },
          [](torch::nn::Module& module, int rank, int step) { return dynamic_cast<Net&>(module).loss(rank, step); }};
}

/// Random numbers that depend on rank and step only.
at::Tensor data(at::IntArrayRef sizes, int rank, int step, at::ScalarType dtype = at::kFloat);

/// Each parameter once.
std::vector<at::Tensor> parameters_of(const torch::nn::Module& module);
/// Copies of the gradients.
Gradients gradients_of(const torch::nn::Module& module);

/// What `.grad()` must be after each of `ranks` ranks added its backward of one step to `before` and the ranks' means
/// (or sums) were taken. `module` is left as it was.
Gradients emulated_gradients(const Scenario& scenario, torch::nn::Module& module, int ranks, int step, bool mean = true,
                             const Gradients& before = {});

void expect_close(const Gradients& actual, const Gradients& expected, double tolerance = 1e-5);

/// That all ranks hold the same bits. A collective.
void expect_same_bits_on_all_ranks(const std::vector<at::Tensor>& tensors, const Group& group);

/// That the call throws an Error of this kind whose text has all these words.
void expect_error(const std::function<void()>& call, ErrorKind kind, const std::vector<std::string>& words);

}  // namespace lockstep::test
