// Models whose gradients are out of the ordinary; their twins are in twins.py.
#pragma once

#include <lockstep/models/network.h>

namespace lockstep::parity {

/// One of two heads takes part in each step, and the layer `spare` never does.
class TwoHeads : public models::Network {
 public:
  TwoHeads(std::int64_t in_features, std::int64_t num_classes);
  torch::Tensor forward(const torch::Tensor& pictures) override;

  void choose_head(int head) { head_ = head; }

 private:
  int head_ = 0;
  torch::nn::Linear body_;
  torch::nn::Linear spare_;
  torch::nn::Linear head0_;
  torch::nn::Linear head1_;
};

/// One layer under two names, mix1 and mix2, used twice.
class Tied : public models::Network {
 public:
  Tied(std::int64_t in_features, std::int64_t num_classes);
  torch::Tensor forward(const torch::Tensor& pictures) override;

 private:
  torch::nn::Linear first_;
  torch::nn::Linear mix_;
  torch::nn::Linear last_;
};

}  // namespace lockstep::parity
