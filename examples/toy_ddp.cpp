// A libtorch program made data parallel. The lines marked (+) were added to the program for one process.
//
//   ./toy_ddp       lockstep run --nproc-per-node 2 ./toy_ddp       mpirun -n 2 ./toy_ddp
#include <lockstep/lockstep.h>  // (+)

#include <torch/torch.h>

#include <iostream>

struct ToyModel : torch::nn::Module {
  ToyModel()
      : net1(register_module("net1", torch::nn::Linear(10, 10))),
        net2(register_module("net2", torch::nn::Linear(10, 5))) {}
  torch::Tensor forward(const torch::Tensor& x) { return net2(torch::relu(net1(x))); }
  torch::nn::Linear net1;
  torch::nn::Linear net2;
};

void train() {
  const auto group = lockstep::init();  // (+) who am I, and where are the others

  const auto model = std::make_shared<ToyModel>();
  lockstep::DataParallel parallel(model, group);  // (+) replicas are equal from here on
  torch::optim::SGD optimizer(model->parameters(), 0.001);

  torch::manual_seed(group.rank());  // (+) each rank has data of its own
  for (int step = 1; step <= 5; ++step) {
    const auto inputs = torch::randn({20, 10});
    const auto labels = torch::randn({20, 5});
    optimizer.zero_grad();
    const auto loss = torch::mse_loss(model->forward(inputs), labels);
    loss.backward();  // ends with the average of all ranks' gradients
    optimizer.step();
  }

  // Proof that the replicas are still equal: every rank's parameters, side by side.
  const auto mine = torch::nn::utils::parameters_to_vector(model->parameters()).detach().unsqueeze(0);
  const auto all = lockstep::all_gather(mine, group);
  if (group.rank() == 0) {
    std::cout << "replicas on " << group.size() << " rank(s) are "
              << (torch::equal(all, all[0].expand_as(all)) ? "equal" : "DIFFERENT") << std::endl;
  }
}

int main() {
  try {
    train();
    return 0;
  } catch (const std::exception& error) {
    lockstep::cluster::report_failure(error);
    std::cerr << error.what() << std::endl;
    return 1;
  }
}
