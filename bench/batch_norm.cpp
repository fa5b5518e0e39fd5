// Batch norms that see all ranks' pictures beside libtorch's, which see their own rank's: forward and backward of one.
//
//   OMP_NUM_THREADS=1 lockstep run --nproc-per-node 2 build/release/bench/batch_norm
#include <lockstep/lockstep.h>

#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <iomanip>
#include <iostream>

namespace {

constexpr int kPictures = 32;  ///< of each rank
constexpr int kRounds = 7;
constexpr int kSteps = 100;  ///< of a round

struct Shape {
  std::int64_t channels;
  std::int64_t side;
};

double seconds_of_step(torch::nn::BatchNorm2d& norm, const at::Tensor& input, const at::Tensor& gradient) {
  const auto start = std::chrono::steady_clock::now();
  for (int step = 0; step < kSteps; ++step) {
    norm(input).backward(gradient);
    input.mutable_grad().reset();
    norm->zero_grad(/*set_to_none=*/true);
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / kSteps;
}

/// Microseconds of each, the least of rounds in turns.
void compare(const Shape& shape, at::MemoryFormat format, const lockstep::Group& group) {
  const auto make = [&] {
    return torch::randn({kPictures, shape.channels, shape.side, shape.side}).contiguous(format);
  };
  const auto input = make().requires_grad_();
  const auto gradient = make();
  torch::nn::BatchNorm2d own(shape.channels);
  torch::nn::BatchNorm2d all(shape.channels);
  // NoSync: no gradients travel.
  lockstep::DataParallel parallel(all, group, {.sync_batch_norm = true});
  const auto quiet = parallel.no_sync();
  double libtorch = 1e9;
  double synchronized = 1e9;
  for (int round = 0; round < kRounds; ++round) {
    libtorch = std::min(libtorch, seconds_of_step(own, input, gradient));
    lockstep::barrier(group);
    synchronized = std::min(synchronized, seconds_of_step(all, input, gradient));
  }
  if (group.rank() != 0) return;
  std::cout << std::setw(4) << shape.channels << " channels, " << std::setw(2) << shape.side << "x" << std::left
            << std::setw(3) << shape.side << std::right
            << (format == at::MemoryFormat::ChannelsLast ? "channels_last" : "contiguous   ") << std::fixed
            << std::setprecision(0) << std::setw(6) << libtorch * 1e6 << " us by libtorch, " << std::setw(5)
            << synchronized * 1e6 << " us over all ranks, ratio " << std::setprecision(2) << synchronized / libtorch
            << std::endl;
}

}  // namespace

int main() try {
  const auto group = lockstep::init();
  for (const auto format : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
    for (const auto& shape : {Shape{16, 32}, Shape{32, 16}, Shape{64, 8}, Shape{256, 8}, Shape{512, 4}}) {
      compare(shape, format, group);
    }
  }
  return 0;
} catch (const std::exception& error) {
  std::cerr << error.what() << std::endl;
  return 1;
}
