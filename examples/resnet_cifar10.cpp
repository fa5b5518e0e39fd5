// Trains ResNet-20 on CIFAR-10, data parallel, with the loop in plain sight. (`lockstep train` does all of this and
// more from one YAML file.)
//
//   lockstep data synthesize cifar10 --out data/cifar10
//   lockstep run --nproc-per-node 2 ./resnet_cifar10 data/cifar10 [EPOCHS]
#include <lockstep/lockstep.h>

#include <torch/torch.h>

#include <cstdlib>
#include <iostream>
#include <string>

namespace data = lockstep::data;
namespace samples = lockstep::samples;

constexpr int64_t kBatch = 64;  // pictures a rank and step

// Crops and flips are for training only.
std::string transforms(data::Split split) {
  const std::string random = "random_crop: {size: 32, padding: 4}, random_horizontal_flip, ";
  return "[" + (split == data::Split::train ? random : "") +
         "rescale: {scale: 0.00392156862745098}, "
         "normalize: {mean: [0.4914, 0.4822, 0.4465], std: [0.2470, 0.2435, 0.2616]}, hwc2chw]";
}

// This rank's share of a split, as batches.
std::unique_ptr<samples::Batches> batches_of(const std::string& folder, data::Split split,
                                             const lockstep::Group& group) {
  const auto pictures = samples::from_pictures(data::load_pictures("cifar10", folder, split));
  const auto dataset = samples::transformed(pictures, transforms(split));
  data::SamplerOptions sampler;
  sampler.dataset_size = dataset->size();
  sampler.num_shards = group.size();
  sampler.shard_id = group.rank();
  sampler.shuffle = split == data::Split::train;
  sampler.remainder = split == data::Split::train ? data::Remainder::drop : data::Remainder::exact;
  sampler.batch_size = kBatch;
  data::LoaderOptions options;
  options.workers = 1;
  return dataset->batches(dataset, data::ShardedSampler(sampler), options);
}

double train_epoch(int64_t epoch, const lockstep::models::Classifier& model, samples::Batches& batches,
                   torch::optim::Optimizer& optimizer) {
  model.module->train();
  double sum = 0;
  int64_t steps = 0;
  batches.start(epoch, 0);
  while (const auto batch = batches.next()) {
    optimizer.zero_grad();
    const auto loss = torch::cross_entropy_loss(model.forward((*batch)["pictures"]), (*batch)["labels"]);
    loss.backward();
    optimizer.step();
    sum += loss.item<double>();
    ++steps;
  }
  return sum / static_cast<double>(steps);
}

// Share of all ranks' test pictures that are recognised; exact, because each picture counts once.
double evaluate(const lockstep::models::Classifier& model, samples::Batches& batches, const lockstep::Group& group) {
  const torch::NoGradGuard no_grad;
  model.module->eval();
  auto counts = torch::zeros({2}, torch::kLong);  // right, seen
  batches.start(0, 0);
  while (const auto batch = batches.next()) {
    if (batch->count == 0) continue;
    const auto right = model.forward((*batch)["pictures"]).argmax(1).eq((*batch)["labels"]).sum();
    counts += torch::stack({right, torch::tensor(batch->count)});
  }
  lockstep::all_reduce(counts, group);
  return counts[0].item<double>() / counts[1].item<double>();
}

void run(const std::string& folder, int epochs) {
  const auto group = lockstep::init();
  const auto train_batches = batches_of(folder, data::Split::train, group);
  const auto test_batches = batches_of(folder, data::Split::test, group);

  torch::manual_seed(1);
  lockstep::models::ModelSpec spec;
  spec.name = "resnet20";
  const auto model = lockstep::models::make_classifier(spec);
  lockstep::DataParallel parallel(model.module, group);
  torch::optim::SGD optimizer(model.module->parameters(),
                              torch::optim::SGDOptions(0.05).momentum(0.9).weight_decay(1e-4));

  for (int epoch = 0; epoch < epochs; ++epoch) {
    const double loss = train_epoch(epoch, model, *train_batches, optimizer);
    parallel.synchronize_buffers();
    const double accuracy = evaluate(model, *test_batches, group);
    if (group.rank() == 0)
      std::cout << "epoch " << epoch + 1 << ": loss " << loss << ", accuracy " << accuracy << std::endl;
  }
}

int main(int argc, char** argv) {
  try {
    if (argc < 2) throw std::invalid_argument("usage: resnet_cifar10 DATA_DIR [EPOCHS]");
    run(argv[1], argc > 2 ? std::stoi(argv[2]) : 1);
    return 0;
  } catch (const std::exception& error) {
    lockstep::cluster::report_failure(error);
    std::cerr << error.what() << std::endl;
    return 1;
  }
}
