// A program that starts its own ranks, as torch.multiprocessing.spawn does: no launcher, no variables.
//
//   ./spawn --nprocs 2                                                                two ranks on this machine
//   ./spawn --nprocs 2 --init_method tcp://10.0.0.1:6060 --world_size 2 --rank 0      on the first of two nodes: 0 and
//   1
//   ./spawn --nprocs 2 --init_method tcp://10.0.0.1:6060 --world_size 2 --rank 1      and on the second: 2 and 3
//
// The arguments are those of PyTorch's example for mp.spawn; --world_size and --rank count nodes.
#include <lockstep/lockstep.h>

#include <torch/torch.h>

#include <iostream>

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
    const auto arguments = lockstep::spawn_arguments(argc, argv);
    for (const auto& word : arguments.rest) std::cerr << "warning: " << word << " is ignored" << std::endl;
    lockstep::spawn(train, arguments.nprocs, arguments.options);  // first thing in main: it forks
    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << std::endl;
    return 1;
  }
}
