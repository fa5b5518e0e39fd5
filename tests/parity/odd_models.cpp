#include "parity/odd_models.h"

namespace lockstep::parity {

using torch::nn::Linear;

TwoHeads::TwoHeads(std::int64_t in_features, std::int64_t num_classes)
    : body_(register_module("body", Linear(in_features, 16))),
      spare_(register_module("spare", Linear(16, 16))),
      head0_(register_module("head0", Linear(16, num_classes))),
      head1_(register_module("head1", Linear(16, num_classes))) {}

torch::Tensor TwoHeads::forward(const torch::Tensor& pictures) {
  const auto x = torch::tanh(body_(pictures.flatten(1)));
  return head_ == 0 ? head0_(x) : head1_(x);
}

Tied::Tied(std::int64_t in_features, std::int64_t num_classes)
    : first_(register_module("first", Linear(in_features, 16))),
      mix_(register_module("mix1", Linear(16, 16))),
      last_(register_module("last", Linear(16, num_classes))) {
  register_module("mix2", mix_);
}

torch::Tensor Tied::forward(const torch::Tensor& pictures) {
  auto x = torch::tanh(first_(pictures.flatten(1)));
  x = torch::tanh(mix_(x));
  x = torch::tanh(mix_(x));
  return last_(x);
}

}  // namespace lockstep::parity
