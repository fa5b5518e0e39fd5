// Small modules for the tests of data parallel training, each with a way of its own of being difficult.
#pragma once

#include "mirrored/scenario.h"

namespace lockstep::test {

/// The toy of the tutorials: Linear-ReLU-Linear, mean squared error, batches of 20.
struct Toy : torch::nn::Module {
  torch::nn::Linear first = register_module("first", torch::nn::Linear(10, 10));
  torch::nn::Linear second = register_module("second", torch::nn::Linear(10, 5));

  at::Tensor forward(const at::Tensor& x) { return second(torch::relu(first(x))); }
  at::Tensor loss(int rank, int step) {
    const auto dtype = first->weight.scalar_type();
    return torch::mse_loss(forward(data({20, 10}, rank, step, dtype)), data({20, 5}, rank + 100, step, dtype));
  }
};

/// `often` on even ranks and in odd steps, `never` never; `frozen` takes part without a gradient.
struct Sometimes : torch::nn::Module {
  torch::nn::Linear always = register_module("always", torch::nn::Linear(4, 4));
  torch::nn::Linear often = register_module("often", torch::nn::Linear(4, 4));
  torch::nn::Linear never = register_module("never", torch::nn::Linear(4, 4));
  torch::nn::Linear frozen = register_module("frozen", torch::nn::Linear(4, 4));

  Sometimes() {
    for (auto& parameter : frozen->parameters()) parameter.set_requires_grad(false);
  }
  at::Tensor loss(int rank, int step) {
    at::Tensor x = frozen(always(data({3, 4}, rank, step)));
    if (rank % 2 == 0 || step % 2 == 1) x = often(x).tanh();
    return x.square().mean();
  }
};

/// One layer in two modules, and used three times.
struct Shared : torch::nn::Module {
  torch::nn::Linear one = register_module("one", torch::nn::Linear(4, 4));
  torch::nn::Linear two = register_module("two", one);
  torch::nn::Linear tail = register_module("tail", torch::nn::Linear(4, 2));
  at::Tensor tied = register_parameter("tied", tail->weight);

  at::Tensor loss(int rank, int step) {
    const at::Tensor x = one(two(data({3, 4}, rank, step)).tanh()).tanh();
    return tail(one(x)).square().sum() + torch::linear(x, tied).mean();
  }
};

/// Convolutions in channels_last with BatchNorm.
struct Pictures : torch::nn::Module {
  torch::nn::Conv2d conv = register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 8, 3).bias(false)));
  torch::nn::BatchNorm2d norm = register_module("norm", torch::nn::BatchNorm2d(8));
  torch::nn::Conv2d last = register_module("last", torch::nn::Conv2d(8, 4, 2));

  Pictures() {
    for (auto& parameter : parameters()) {
      if (parameter.dim() == 4) parameter.set_data(parameter.contiguous(at::MemoryFormat::ChannelsLast));
    }
  }
  at::Tensor loss(int rank, int step) {
    const at::Tensor x = data({2, 3, 6, 6}, rank, step).contiguous(at::MemoryFormat::ChannelsLast);
    return last(torch::relu(norm(conv(x)))).square().mean();
  }
};

/// Parameters of three dtypes, interleaved, one of no elements, one not dense.
struct Mixed : torch::nn::Module {
  at::Tensor a = register_parameter("a", torch::ones({3, 5}, at::kFloat));
  at::Tensor b = register_parameter("b", torch::ones({7}, at::kDouble));
  at::Tensor c = register_parameter("c", torch::ones({4}, at::kBFloat16));
  at::Tensor d = register_parameter("d", torch::ones({2, 2}, at::kFloat));
  at::Tensor e = register_parameter("e", torch::ones({0, 3}, at::kFloat));
  at::Tensor f = register_parameter("f", torch::ones({2, 6}, at::kDouble).slice(1, 0, 6, 2));

  at::Tensor loss(int rank, int step) {
    const double scale = 1 + rank + 10 * step;
    return (a.sum() * scale + d.square().sum() + e.sum()).to(at::kDouble) + b.sum() * scale +
           (c * scale).sum().to(at::kDouble) + (f * scale).sum();
  }
};

}  // namespace lockstep::test
