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

constexpr int64_t kBatch = 64;  // pictures a rank and step

data::TransformSpec transform(std::string name,
                              std::vector<std::pair<std::string, data::TransformValue>> arguments = {}) {
  data::TransformSpec spec{std::move(name), {}, {}};
  for (auto& [key, value] : arguments) spec.arguments.push_back({key, value, {}});
  return spec;
}

std::vector<data::TransformSpec> transforms(data::Split split) {
  std::vector<data::TransformSpec> list;
  if (split == data::Split::train) {
    list.push_back(transform("random_crop", {{"size", 32.0}, {"padding", 4.0}}));
    list.push_back(transform("random_horizontal_flip"));
  }
  list.push_back(transform("rescale", {{"scale", 1.0 / 255}}));
  list.push_back(transform("normalize", {{"mean", std::vector<double>{0.4914, 0.4822, 0.4465}},
                                         {"std", std::vector<double>{0.2470, 0.2435, 0.2616}}}));
  list.push_back(transform("hwc2chw"));
  return list;
}

// This rank's share of a split, as batches.
std::unique_ptr<data::Loader> make_loader(const std::string& folder, data::Split split, const lockstep::Group& group) {
  const auto dataset = data::load_dataset("cifar10", folder, split);
  data::SamplerOptions sampler;
  sampler.dataset_size = dataset->size();
  sampler.num_shards = group.size();
  sampler.shard_id = group.rank();
  sampler.shuffle = split == data::Split::train;
  sampler.remainder = split == data::Split::train ? data::Remainder::drop : data::Remainder::exact;
  sampler.batch_size = kBatch;
  data::LoaderOptions options;
  options.workers = 1;
  return std::make_unique<data::Loader>(dataset, data::Pipeline(transforms(split), dataset->shape()),
                                        data::ShardedSampler(sampler), options);
}

// Tensors over the batch's own memory: the batch must outlive them.
torch::Tensor pictures_of(data::Batch& batch) {
  const auto& shape = batch.shape;
  return torch::from_blob(batch.pixels.data(), {batch.count, shape.channels, shape.height, shape.width});
}
torch::Tensor labels_of(data::Batch& batch) {
  return torch::from_blob(batch.labels.data(), {batch.count}, torch::kLong);
}

double train_epoch(int64_t epoch, const lockstep::models::Classifier& model, data::Loader& loader,
                   torch::optim::Optimizer& optimizer) {
  model.module->train();
  double sum = 0;
  int64_t steps = 0;
  loader.start(epoch);
  while (const auto batch = loader.next()) {
    optimizer.zero_grad();
    const auto loss = torch::cross_entropy_loss(model.forward(pictures_of(*batch)), labels_of(*batch));
    loss.backward();
    optimizer.step();
    sum += loss.item<double>();
    ++steps;
  }
  return sum / static_cast<double>(steps);
}

// Share of all ranks' test pictures that are recognised; exact, because each picture counts once.
double evaluate(const lockstep::models::Classifier& model, data::Loader& loader, const lockstep::Group& group) {
  const torch::NoGradGuard no_grad;
  model.module->eval();
  auto counts = torch::zeros({2}, torch::kLong);  // right, seen
  loader.start(0);
  while (const auto batch = loader.next()) {
    if (batch->count == 0) continue;
    const auto right = model.forward(pictures_of(*batch)).argmax(1).eq(labels_of(*batch)).sum();
    counts += torch::stack({right, torch::tensor(batch->count)});
  }
  lockstep::all_reduce(counts, group);
  return counts[0].item<double>() / counts[1].item<double>();
}

void run(const std::string& folder, int epochs) {
  const auto group = lockstep::init();
  const auto train_loader = make_loader(folder, data::Split::train, group);
  const auto test_loader = make_loader(folder, data::Split::test, group);

  torch::manual_seed(1);
  lockstep::models::ModelSpec spec;
  spec.name = "resnet20";
  const auto model = lockstep::models::make_classifier(spec);
  lockstep::DataParallel parallel(model.module, group);
  torch::optim::SGD optimizer(model.module->parameters(),
                              torch::optim::SGDOptions(0.05).momentum(0.9).weight_decay(1e-4));

  for (int epoch = 0; epoch < epochs; ++epoch) {
    const double loss = train_epoch(epoch, model, *train_loader, optimizer);
    parallel.synchronize_buffers();
    const double accuracy = evaluate(model, *test_loader, group);
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
