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

// Bytes 0..255 become 0..1, and picture rows become what the network reads.
std::vector<lockstep::data::TransformSpec> transforms() {
  lockstep::data::TransformSpec rescale{"rescale", {}, {}};
  rescale.arguments.push_back({"scale", 1.0 / 255, {}});
  return {rescale, lockstep::data::TransformSpec{"hwc2chw", {}, {}}};
}

// This rank's share of each batch.
lockstep::data::Loader make_loader(const std::string& folder, lockstep::data::Split split,
                                   const lockstep::Group& group) {
  const auto dataset = lockstep::data::load_dataset("mnist", folder, split);
  lockstep::data::SamplerOptions sampler;
  sampler.dataset_size = dataset->size();
  sampler.shuffle = split == lockstep::data::Split::train;
  sampler.remainder = sampler.shuffle ? lockstep::data::Remainder::drop : lockstep::data::Remainder::exact;
  sampler.num_shards = group.size();           // (+)
  sampler.shard_id = group.rank();             // (+)
  sampler.batch_size = kBatch / group.size();  // (+) divided
  return {
      dataset, lockstep::data::Pipeline(transforms(), dataset->shape()), lockstep::data::ShardedSampler(sampler), {}};
}

torch::Tensor pictures_of(lockstep::data::Batch& batch) {
  return torch::from_blob(batch.pixels.data(), {batch.count, 784});
}
torch::Tensor labels_of(lockstep::data::Batch& batch) {
  return torch::from_blob(batch.labels.data(), {batch.count}, torch::kLong);
}

void train(const std::string& folder, int epochs) {
  const auto group = lockstep::init();  // (+)

  torch::manual_seed(1);
  torch::nn::Sequential net(torch::nn::Linear(784, 256), torch::nn::ReLU(), torch::nn::Linear(256, 10));
  lockstep::DataParallel parallel(net, group);  // (+)
  torch::optim::Adam optimizer(net->parameters(), 1e-3);

  auto loader = make_loader(folder, lockstep::data::Split::train, group);
  for (int epoch = 0; epoch < epochs; ++epoch) {
    auto sum = torch::zeros({2}, torch::kDouble);  // of the losses, and steps
    loader.start(epoch);
    while (const auto batch = loader.next()) {
      optimizer.zero_grad();
      const auto loss = torch::nn::functional::cross_entropy(net->forward(pictures_of(*batch)), labels_of(*batch));
      loss.backward();
      optimizer.step();
      sum += torch::tensor({loss.item<double>(), 1.0}, torch::kDouble);
    }
    lockstep::all_reduce(sum, group);  // (+)
    if (group.rank() == 0)
      std::cout << "epoch " << epoch + 1 << ": loss " << (sum[0] / sum[1]).item<double>() << std::endl;
  }

  const torch::NoGradGuard no_grad;
  auto tests = make_loader(folder, lockstep::data::Split::test, group);
  auto counts = torch::zeros({2}, torch::kDouble);  // right, seen
  tests.start(0);
  while (const auto batch = tests.next()) {
    if (batch->count == 0) continue;  // (+) some ranks have no share of the last batch
    const auto right = net->forward(pictures_of(*batch)).argmax(1).eq(labels_of(*batch)).sum().item<double>();
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
