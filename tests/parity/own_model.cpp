// A program with a model of its own, for comparison with test_own_model.py: two inputs, and two losses that are added
// up.
//   parity_own_model WEIGHTS DATA [KEY=VALUE...]
// Started as often as there are ranks, with torchrun's environment. The run leaves its files in system.work_dir.
#include <lockstep/lockstep.h>
#include <lockstep/state/safetensors.h>
#include <lockstep/train/named_tensors.h>

#include <torch/torch.h>

#include <cstdio>
#include <exception>
#include <memory>
#include <string>
#include <vector>

namespace {

using namespace lockstep;

/// A row of numbers, and which of five kinds it is. Gives a number and the scores of three classes.
struct TwoHeads : torch::nn::Module {
  TwoHeads() : kinds(5, 16), in(6, 16), middle(16, 16), number(16, 1), classes(16, 3) {
    register_module("kinds", kinds);
    register_module("in", in);
    register_module("middle", middle);
    register_module("number", number);
    register_module("classes", classes);
  }

  struct Output {
    torch::Tensor number, classes;
  };
  Output forward(const torch::Tensor& row, const torch::Tensor& kind) {
    const auto hidden = torch::tanh(middle(torch::tanh(in(row) + kinds(kind))));
    return {number(hidden), classes(hidden)};
  }

  torch::nn::Embedding kinds;
  torch::nn::Linear in, middle, number, classes;
};

train::Outcome both_losses(TwoHeads& net, const samples::Batch& batch) {
  const auto output = net.forward(batch["row"], batch["kind"]);
  return {.loss = torch::mse_loss(output.number, batch["number"]) +
                  0.5 * torch::cross_entropy_loss(output.classes, batch["class"])};
}

int run(const std::string& weights, const std::string& data, const std::vector<std::string>& keys) {
  torch::set_num_threads(1);
  const train::Program program{.name = "two_heads",
                               .model =
                                   [weights] {
                                     auto net = std::make_shared<TwoHeads>();
                                     train::load_weights(*net, weights);
                                     return net;
                                   },
                               .task = train::make_task<TwoHeads>(both_losses),
                               .data = {samples::from_tensors(state::load_safetensors(data)), nullptr}};
  const auto* defaults = "{data: {shuffle: false}, train: {epochs: 1}, callbacks: {metrics_every: 1}}";
  Trainer trainer(program, train::parse_run_config(defaults, program, keys));
  trainer.train();
  return trainer.exit_code();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fputs("usage: parity_own_model WEIGHTS DATA [KEY=VALUE...]\n", stderr);
    return 2;
  }
  try {
    return run(argv[1], argv[2], {argv + 3, argv + argc});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
