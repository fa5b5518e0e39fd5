// The MLP of mlp_mnist_global.cpp, mirrored: every rank holds all of the model and its share of each batch. The lines
// marked (+) were added to the program for one device.
//
//   lockstep data synthesize mnist --out data/mnist
//   ./mlp_mnist_mirrored data/mnist            lockstep run --nproc-per-node 2 ./mlp_mnist_mirrored data/mnist
#include <lockstep/lockstep.h>  // (+)

#include <torch/torch.h>

#include <iostream>
#include <string>

constexpr int64_t kBatch = 100;  // of all ranks together

// The pictures of a split: bytes 0..255 become 0..1, and picture rows become what the network reads.
std::shared_ptr<const lockstep::samples::Dataset> dataset(const std::string& folder, lockstep::data::Split split) {
  const auto pictures = lockstep::samples::from_pictures(lockstep::data::load_pictures("mnist", folder, split));
  return lockstep::samples::transformed(pictures, "[rescale: {scale: 0.00392156862745098}, hwc2chw]");
}

// This rank's share of each batch.
std::unique_ptr<lockstep::samples::Batches> batches_of(const std::string& folder, lockstep::data::Split split,
                                                       const lockstep::Group& group) {
  const auto pictures = dataset(folder, split);
  lockstep::data::SamplerOptions sampler;
  sampler.dataset_size = pictures->size();
  sampler.shuffle = split == lockstep::data::Split::train;
  sampler.remainder = sampler.shuffle ? lockstep::data::Remainder::drop : lockstep::data::Remainder::exact;
  sampler.num_shards = group.size();           // (+)
  sampler.shard_id = group.rank();             // (+)
  sampler.batch_size = kBatch / group.size();  // (+) divided
  return pictures->batches(pictures, lockstep::data::ShardedSampler(sampler), {});
}

void train(const std::string& folder, int epochs) {
  const auto group = lockstep::init();  // (+)

  torch::manual_seed(1);
  torch::nn::Sequential net(torch::nn::Linear(784, 256), torch::nn::ReLU(), torch::nn::Linear(256, 10));
  lockstep::DataParallel parallel(net, group);  // (+)
  torch::optim::Adam optimizer(net->parameters(), 1e-3);

  const auto batches = batches_of(folder, lockstep::data::Split::train, group);
  for (int epoch = 0; epoch < epochs; ++epoch) {
    auto sum = torch::zeros({2}, torch::kDouble);  // of the losses, and steps
    batches->start(epoch, 0);
    while (const auto batch = batches->next()) {
      optimizer.zero_grad();
      const auto logits = net->forward((*batch)["pictures"].flatten(1));
      const auto loss = torch::nn::functional::cross_entropy(logits, (*batch)["labels"]);
      loss.backward();
      optimizer.step();
      sum += torch::tensor({loss.item<double>(), 1.0}, torch::kDouble);
    }
    lockstep::all_reduce(sum, group);  // (+)
    if (group.rank() == 0)
      std::cout << "epoch " << epoch + 1 << ": loss " << (sum[0] / sum[1]).item<double>() << std::endl;
  }

  const torch::NoGradGuard no_grad;
  const auto tests = batches_of(folder, lockstep::data::Split::test, group);
  auto counts = torch::zeros({2}, torch::kDouble);  // right, seen
  tests->start(0, 0);
  while (const auto batch = tests->next()) {
    if (batch->count == 0) continue;  // (+) some ranks have no share of the last batch
    const auto logits = net->forward((*batch)["pictures"].flatten(1));
    const auto right = logits.argmax(1).eq((*batch)["labels"]).sum().item<double>();
    counts += torch::tensor({right, static_cast<double>(batch->count)}, torch::kDouble);
  }
  lockstep::all_reduce(counts, group);  // (+)
  if (group.rank() == 0) std::cout << "accuracy " << (counts[0] / counts[1]).item<double>() << std::endl;
}

int main(int argc, char** argv) {
  try {
    if (argc < 2) throw std::invalid_argument("usage: mlp_mnist_mirrored DATA_DIR [EPOCHS]");
    train(argv[1], argc > 2 ? std::stoi(argv[2]) : 1);
    return 0;
  } catch (const std::exception& error) {
    lockstep::cluster::report_failure(error);
    std::cerr << error.what() << std::endl;
    return 1;
  }
}
