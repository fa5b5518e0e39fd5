// A training program with a main function of its own: a module, data sets, a loss function and an optimizer of
// libtorch, trained, measured and asked.
//   own_trainer                                         alone
//   lockstep run --nproc-per-node 2 own_trainer train.epochs=3
#include <lockstep/lockstep.h>
#include <torch/torch.h>

#include <iostream>

using namespace lockstep;

std::shared_ptr<const samples::Dataset> lines(std::int64_t points, std::int64_t seed) {
  torch::manual_seed(seed);
  const auto x = torch::rand({points, 3});
  return samples::from_tensors({{"x", x}, {"y", x.matmul(torch::tensor({{1.0F}, {-2.0F}, {0.5F}})) + 3}});
}

int train_and_ask(const std::vector<std::string>& overrides) {
  torch::manual_seed(0);  // libtorch seeds itself by chance: without this, each start has other weights
  torch::nn::Sequential net(torch::nn::Linear(3, 16), torch::nn::Tanh(), torch::nn::Linear(16, 1));
  const train::Program program{
      .name = "regression",
      .model = net,
      .task = train::supervised<torch::nn::SequentialImpl>(
          [](const torch::Tensor& output, const torch::Tensor& target) { return torch::mse_loss(output, target); }),
      .data = {lines(1000, 1), lines(200, 2)},
      .optimizer = [](const std::vector<torch::Tensor>& parameters) {
        return std::make_unique<torch::optim::Adam>(parameters, torch::optim::AdamOptions(0.01));
      }};
  const auto config =
      train::parse_run_config("{train: {epochs: 10}, system: {work_dir: out/own_trainer}}", program, overrides);
  Trainer trainer(program, config);
  trainer.train();
  const auto measured = trainer.evaluate();
  const auto answer = trainer.predict(samples::from_tensors({{"x", torch::ones({1, 3})}, {"y", torch::zeros({1, 1})}}));
  if (trainer.is_rank() && trainer.world().rank == 0) {
    std::cout << "loss " << measured.loss << ", f(1, 1, 1) = " << answer.tensors.at("output").item<float>() << '\n';
  }
  return trainer.exit_code();
}

int main(int argc, char** argv) {
  try {
    return train_and_ask({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    lockstep::cluster::report_failure(error);  // tells the launcher why
    std::cerr << error.what() << '\n';
    return 1;
  }
}
