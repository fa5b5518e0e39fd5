// The workloads that Lockstep and PyTorch DDP are both timed on.
#pragma once

#include <torch/torch.h>

#include <functional>
#include <memory>
#include <string>

namespace lockstep::bench {

/// A model with fixed inputs; `loss()` runs forward and the loss on them, `loss_of` on others of their form.
struct Case {
  std::shared_ptr<torch::nn::Module> module;
  at::Tensor inputs;
  std::function<at::Tensor(const at::Tensor& inputs)> loss_of;
  std::int64_t batch = 0;
  double lr = 0.01;
  double momentum = 0.9;

  at::Tensor loss() const { return loss_of(inputs); }
};

struct Precision {
  bool bfloat16 = false;       ///< forward under autocast
  bool channels_last = false;  ///< convolution weights and pictures
};

/// With module and inputs on `device`. `batch`: samples, 0 for the case's own number. Error(invalid_argument) for a
/// name that is not one of resnet50_32, resnet18_32, resnet20_32, mlp, toy, resnet50_224,
/// gpt2_124m.
Case make_case(const std::string& name, const Precision& precision, const at::Device& device = at::kCPU,
               std::int64_t batch = 0);

}  // namespace lockstep::bench
