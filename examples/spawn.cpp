// A program that starts its own ranks, as torch.multiprocessing.spawn does: no launcher, no variables.
//
//   ./spawn 2                                 two ranks on this machine
//   ./spawn 2 tcp://10.0.0.1:6060 2 0         on the first of two nodes, whose ranks are 0 and 1,
//   ./spawn 2 tcp://10.0.0.1:6060 2 1         and on the second: 2 and 3
//
// The arguments are: ranks on each node, and then where they meet, how many nodes there are and which of them this is.
#include <lockstep/lockstep.h>

#include <torch/torch.h>

#include <iostream>
#include <string>

// One step of the smallest model, on each rank with data of its own.
void train(int index) {
  const auto group = lockstep::init();  // rank node_rank * nprocs + index
  torch::nn::Sequential model(torch::nn::Linear(10, 10), torch::nn::ReLU(), torch::nn::Linear(10, 5));
  lockstep::DataParallel parallel(model, group);
  torch::optim::SGD optimizer(model->parameters(), 0.001);

  torch::manual_seed(group.rank());
  optimizer.zero_grad();
  auto loss = torch::mse_loss(model->forward(torch::randn({20, 10})), torch::randn({20, 5}));
  loss.backward();
  optimizer.step();

  const auto mine = torch::nn::utils::parameters_to_vector(model->parameters()).detach().unsqueeze(0);
  const auto all = lockstep::all_gather(mine, group);
  if (index == 0 && group.rank() == 0) {
    std::cout << "replicas on " << group.size() << " rank(s) are "
              << (torch::equal(all, all[0].expand_as(all)) ? "equal" : "DIFFERENT") << std::endl;
  }
}

int main(int argc, char** argv) {
  try {
    if (argc != 2 && argc != 5) throw std::invalid_argument("usage: spawn RANKS [INIT_METHOD NODES NODE_RANK]");
    lockstep::SpawnOptions options;
    if (argc == 5) {
      options.init_method = argv[2];
      options.nodes = std::stoi(argv[3]);
      options.node_rank = std::stoi(argv[4]);
    }
    lockstep::spawn(train, std::stoi(argv[1]), options);  // first thing in main: it forks
    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << std::endl;
    return 1;
  }
}
