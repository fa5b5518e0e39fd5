// Pictures a second through CIFAR-10's training transforms (crop 32 padding 4, flip, rescale, normalize), one thread.
// bench/vs_torchvision.py runs it in turn with torchvision's transforms on the same files.
//
//   input_pipeline DIR [PASSES]
#include <lockstep/base/text.h>
#include <lockstep/lockstep.h>

#include <chrono>
#include <iostream>

namespace {

constexpr const char* kCifarTransforms =
    "[random_crop: {size: 32, padding: 4}, random_horizontal_flip, rescale: {scale: 0.00392156862745098}, "
    "normalize: {mean: [0.4914, 0.4822, 0.4465], std: [0.2470, 0.2435, 0.2616]}, hwc2chw]";

}  // namespace

int main(int argc, char** argv) try {
  const auto passes = argc > 2 ? lockstep::parse_integer(argv[2]) : 20;
  if (argc < 2 || !passes || *passes < 1) {
    std::cerr << "usage: input_pipeline DIR [PASSES]\n";
    return 2;
  }
  const auto stored = lockstep::data::load_pictures("cifar10", argv[1], lockstep::data::Split::train);
  const auto dataset = lockstep::samples::transformed(lockstep::samples::from_pictures(stored), kCifarTransforms);
  lockstep::data::SamplerOptions order;
  order.dataset_size = dataset->size();
  order.batch_size = 100;
  const auto batches = dataset->batches(dataset, lockstep::data::ShardedSampler(order), {});
  std::int64_t pictures = 0;
  const auto start = std::chrono::steady_clock::now();
  for (std::int64_t epoch = 0; epoch < *passes; ++epoch) {
    batches->start(epoch, 0);
    while (const auto batch = batches->next()) pictures += batch->count;
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::cout << static_cast<double>(pictures) / seconds << '\n';
  return 0;
} catch (const std::exception& error) {
  std::cerr << "input_pipeline: " << error.what() << '\n';
  return 1;
}
