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

// The pictures of a split: bytes 0..255 become 0..1, and picture rows become what the network reads.
std::shared_ptr<const lockstep::samples::Dataset> dataset(const std::string& folder, lockstep::data::Split split) {
  const auto pictures = lockstep::samples::from_pictures(lockstep::data::load_pictures("mnist", folder, split));
  return lockstep::samples::transformed(pictures, "[rescale: {scale: 0.00392156862745098}, hwc2chw]");
}

// Every rank reads whole batches, the same ones.
std::unique_ptr<lockstep::samples::Batches> batches_of(const std::string& folder, lockstep::data::Split split) {
  const auto pictures = dataset(folder, split);
  lockstep::data::SamplerOptions sampler;
  sampler.dataset_size = pictures->size();
  sampler.shuffle = split == lockstep::data::Split::train;
  sampler.remainder = sampler.shuffle ? lockstep::data::Remainder::drop : lockstep::data::Remainder::exact;
  sampler.batch_size = kBatch;
  return pictures->batches(pictures, lockstep::data::ShardedSampler(sampler), {});
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

  const auto batches = batches_of(folder, lockstep::data::Split::train);
  for (int epoch = 0; epoch < epochs; ++epoch) {
    double sum = 0;
    int64_t steps = 0;
    batches->start(epoch, 0);
    while (const auto batch = batches->next()) {
      const auto x = spread((*batch)["pictures"].flatten(1));  // (+) around the batch
      const auto y = spread((*batch)["labels"]);               // (+)
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
  const auto tests = batches_of(folder, lockstep::data::Split::test);
  double right = 0, seen = 0;
  tests->start(0, 0);
  while (const auto batch = tests->next()) {
    const auto logits = net->forward(spread((*batch)["pictures"].flatten(1)));
    right += logits.argmax(1).eq(spread((*batch)["labels"])).sum().item<double>();
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
