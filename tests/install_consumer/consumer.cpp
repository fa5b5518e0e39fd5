// What somebody writes first: the README's program, and proof that ranks worked together.
#include <lockstep/lockstep.h>

#include <torch/torch.h>

#include <iostream>

int main() {
  const auto group = lockstep::init();
  torch::nn::Sequential model(torch::nn::Linear(10, 10), torch::nn::ReLU(), torch::nn::Linear(10, 5));
  lockstep::DataParallel parallel(model, group);
  torch::optim::SGD optimizer(model->parameters(), 0.001);
  for (int step = 0; step < 3; ++step) {
    optimizer.zero_grad();
    torch::mse_loss(model->forward(torch::randn({20, 10})), torch::randn({20, 5})).backward();
    optimizer.step();
  }
  // What headers declare is there to link with, too.
  const auto remembered = lockstep::train::optimizer_state(optimizer, lockstep::train::trainable_parameters(*model));
  if (lockstep::can_rejoin(group) || !remembered.empty()) return 1;
  std::cout << "lockstep " << lockstep::version() << std::endl;

  auto ranks = torch::ones({1});
  lockstep::all_reduce(ranks, group);
  std::cout << "rank " << group.rank() << " counted " << ranks.item<float>() << " rank(s)" << std::endl;
}
