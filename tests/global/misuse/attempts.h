// Attempts to use operators wrongly, in tables; tests/global/test_misuse.cpp makes them.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::test {

using Tensors = std::vector<torch::Tensor>;
using X = const torch::Tensor&;
using In = const Tensors&;
using One = torch::Tensor (*)(X);
using Two = torch::Tensor (*)(X, X);

struct Attempt {
  std::string name;
  Tensors inputs;
  std::function<Tensors(In)> run;  ///< may write into the inputs, which are results, too
};

inline torch::Tensor floats(std::vector<std::int64_t> sizes) { return torch::randn(sizes); }

/// Valid indices of two rows and more.
inline torch::Tensor zeros_and_ones(std::vector<std::int64_t> sizes) { return torch::randint(2, sizes, torch::kLong); }

inline Attempt on(std::string name, Tensors inputs, std::function<Tensors(In)> run) {
  return {std::move(name), std::move(inputs), std::move(run)};
}

inline Attempt one(std::string name, std::vector<std::int64_t> sizes, One run) {
  return on(std::move(name), {floats(std::move(sizes))}, [run](In in) { return Tensors{run(in[0])}; });
}

std::vector<Attempt> dimensions();  ///< that the tensor does not have
std::vector<Attempt> shapes();      ///< of one tensor
std::vector<Attempt> pairs();       ///< of tensors whose shapes do not fit each other
std::vector<Attempt> indices();     ///< that are out of range, or of a wrong shape
std::vector<Attempt> losses();      ///< of outputs and targets that do not fit each other
std::vector<Attempt> layers();      ///< with weights, channels and sizes that do not fit each other
std::vector<Attempt> dtypes();      ///< that an operator does not take, or not beside each other

}  // namespace lockstep::test
