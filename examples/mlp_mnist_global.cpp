// An MLP on MNIST: a program for one device, and the lines, marked (+), that spread it over many. The model stays one
// logical model: its first layer is divided by outputs, its second by inputs, its batch by pictures, and the losses are
// those of one device.
//
//   lockstep data synthesize mnist --out data/mnist
//   ./mlp_mnist_global data/mnist                                              one device
//   lockstep run --nproc-per-node 4 ./mlp_mnist_global data/mnist 1 2          2 x 2: batch and model divided
#include <lockstep/lockstep.h>  // (+)

#include <torch/torch.h>

#include <iostream>
#include <string>

using lockstep::Replicate;
using lockstep::Shard;

constexpr int64_t kBatch = 100;

// Bytes 0..255 become 0..1, and picture rows become what the network reads.
std::vector<lockstep::data::TransformSpec> transforms() {
  lockstep::data::TransformSpec rescale{"rescale", {}, {}};
  rescale.arguments.push_back({"scale", 1.0 / 255, {}});
  return {rescale, lockstep::data::TransformSpec{"hwc2chw", {}, {}}};
}

// Every rank reads whole batches, the same ones.
lockstep::data::Loader make_loader(const std::string& folder, lockstep::data::Split split) {
  const auto dataset = lockstep::data::load_dataset("mnist", folder, split);
  lockstep::data::SamplerOptions sampler;
  sampler.dataset_size = dataset->size();
  sampler.shuffle = split == lockstep::data::Split::train;
  sampler.remainder = sampler.shuffle ? lockstep::data::Remainder::drop : lockstep::data::Remainder::exact;
  sampler.batch_size = kBatch;
  return {
      dataset, lockstep::data::Pipeline(transforms(), dataset->shape()), lockstep::data::ShardedSampler(sampler), {}};
}

torch::Tensor pictures_of(lockstep::data::Batch& batch) {
  return torch::from_blob(batch.pixels.data(), {batch.count, 784});
}
torch::Tensor labels_of(lockstep::data::Batch& batch) {
  return torch::from_blob(batch.labels.data(), {batch.count}, torch::kLong);
}

void train(const std::string& folder, int epochs, int model_ranks) {
  const auto group = lockstep::init();                                                                     // (+)
  const lockstep::Mesh mesh(group, {group.size() / model_ranks, model_ranks}, {"data", "model"});          // (+)
  const auto spread = [&](const torch::Tensor& batch) {                                                    // (+)
    return lockstep::distribute(batch, mesh, {Shard(0), Replicate()}, lockstep::Source::same_everywhere);  // (+)
  };                                                                                                       // (+)

  torch::manual_seed(1);
  torch::nn::Sequential net(torch::nn::Linear(784, 256), torch::nn::ReLU(), torch::nn::Linear(256, 10));
  lockstep::distribute_module(net, mesh,
                              {{"0.*", {Replicate(), Shard(0)}}, {"2.weight", {Replicate(), Shard(1)}}});  // (+)
  torch::optim::Adam optimizer(net->parameters(), 1e-3);

  auto loader = make_loader(folder, lockstep::data::Split::train);
  for (int epoch = 0; epoch < epochs; ++epoch) {
    double sum = 0;
    int64_t steps = 0;
    loader.start(epoch);
    while (const auto batch = loader.next()) {
      const auto x = spread(pictures_of(*batch));  // (+) around the batch
      const auto y = spread(labels_of(*batch));    // (+)
      net->zero_grad(/*set_to_none=*/true);
      const auto loss = torch::nn::functional::cross_entropy(net->forward(x), y);
      loss.backward();
      optimizer.step();
      sum += loss.item<double>();
      ++steps;
    }
    if (group.rank() == 0)
      std::cout << "epoch " << epoch + 1 << ": loss " << sum / static_cast<double>(steps) << std::endl;
  }

  const torch::NoGradGuard no_grad;
  auto tests = make_loader(folder, lockstep::data::Split::test);
  double right = 0, seen = 0;
  tests.start(0);
  while (const auto batch = tests.next()) {
    right += net->forward(spread(pictures_of(*batch))).argmax(1).eq(spread(labels_of(*batch))).sum().item<double>();
    seen += static_cast<double>(batch->count);
  }
  if (group.rank() == 0) std::cout << "accuracy " << right / seen << std::endl;
}

int main(int argc, char** argv) {
  try {
    if (argc < 2) throw std::invalid_argument("usage: mlp_mnist_global DATA_DIR [EPOCHS [MODEL_RANKS]]");
    train(argv[1], argc > 2 ? std::stoi(argv[2]) : 1, argc > 3 ? std::stoi(argv[3]) : 1);
    return 0;
  } catch (const std::exception& error) {
    lockstep::cluster::report_failure(error);
    std::cerr << error.what() << std::endl;
    return 1;
  }
}
