// Pictures a second through CIFAR-10's training transforms (crop 32 padding 4, flip, rescale, normalize), one thread.
// bench/vs_torchvision.py runs it in turn with torchvision's transforms on the same files.
//
//   input_pipeline DIR [PASSES]
#include <lockstep/base/parse.h>
#include <lockstep/lockstep.h>

#include <chrono>
#include <iostream>

namespace {

using lockstep::data::TransformSpec;

std::vector<TransformSpec> cifar_transforms() {
  const std::vector<double> mean{0.4914, 0.4822, 0.4465};
  const std::vector<double> deviation{0.2470, 0.2435, 0.2616};
  return {{"random_crop", {{"size", 32.0, {}}, {"padding", 4.0, {}}}, {}},
          {"random_horizontal_flip", {}, {}},
          {"rescale", {{"scale", 1.0 / 255, {}}}, {}},
          {"normalize", {{"mean", mean, {}}, {"std", deviation, {}}}, {}},
          {"hwc2chw", {}, {}}};
}

}  // namespace

int main(int argc, char** argv) try {
  const auto passes = argc > 2 ? lockstep::parse_integer(argv[2]) : 20;
  if (argc < 2 || !passes || *passes < 1) {
    std::cerr << "usage: input_pipeline DIR [PASSES]\n";
    return 2;
  }
  const auto dataset = lockstep::data::load_dataset("cifar10", argv[1], lockstep::data::Split::train);
  lockstep::data::SamplerOptions order;
  order.dataset_size = dataset->size();
  order.batch_size = 100;
  lockstep::data::Loader loader(dataset, {cifar_transforms(), dataset->shape()}, lockstep::data::ShardedSampler(order),
                                {});
  std::int64_t pictures = 0;
  const auto start = std::chrono::steady_clock::now();
  for (std::int64_t epoch = 0; epoch < *passes; ++epoch) {
    loader.start(epoch);
    while (const auto batch = loader.next()) pictures += batch->count;
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::cout << static_cast<double>(pictures) / seconds << '\n';
  return 0;
} catch (const std::exception& error) {
  std::cerr << "input_pipeline: " << error.what() << '\n';
  return 1;
}
