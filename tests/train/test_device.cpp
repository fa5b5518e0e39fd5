#include <lockstep/train/device.h>

#include "base/expect_error.h"

namespace lockstep::train {
namespace {

World world_of(int size, int local_size) {
  World world;
  world.size = size;
  world.local_size = local_size;
  return world;
}

TEST(Device, AutoIsCudaForASingleRankWhereThereIsOne) {
  EXPECT_TRUE(use_cuda("auto", world_of(1, 1), {1}));
  EXPECT_FALSE(use_cuda("auto", world_of(1, 1), {0}));
  EXPECT_FALSE(use_cuda("auto", world_of(2, 2), {2}));
  EXPECT_FALSE(use_cuda("cpu", world_of(1, 1), {1}));
  EXPECT_FALSE(use_cuda("cpu", world_of(4, 4), {1})) << "nobody asked for a device";
}

TEST(Device, CudaIsRefusedWithWhatThereIs) {
  EXPECT_TRUE(use_cuda("cuda", world_of(1, 1), {2}));
  const auto refused = [](const World& world, const CudaDevices& devices,
                          std::initializer_list<std::string_view> words) {
    test::expect_error(ErrorKind::config, words, [&] { use_cuda("cuda", world, devices); });
  };
  refused(world_of(1, 1), {0}, {"finds no CUDA device;", "system.device=cpu"});
  refused(world_of(1, 1), {0, ""}, {"finds no CUDA device (CUDA_VISIBLE_DEVICES=)"});
  refused(world_of(4, 4), {2, "0,3"}, {"4 ranks of this host, which has 2 CUDA devices (CUDA_VISIBLE_DEVICES=0,3)"});
  refused(world_of(8, 2), {1}, {"2 ranks of this host, which has 1 CUDA device:"});
  refused(world_of(4, 2), {2}, {"no backend of this version carries CUDA tensors"});
}

}  // namespace
}  // namespace lockstep::train
