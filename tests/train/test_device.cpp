#include <lockstep/train/resources/runtime.h>

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
  EXPECT_TRUE(use_cuda("auto", false, 1, "stand_alone", {1}));
  EXPECT_FALSE(use_cuda("auto", false, 1, "data_parallel", {0}));
  EXPECT_FALSE(use_cuda("auto", false, 2, "data_parallel", {2}));
  EXPECT_FALSE(use_cuda("cpu", false, 1, "data_parallel", {1})) << "nobody asked for a device";
}

TEST(Device, IsThatOfTheGroup) {
  EXPECT_TRUE(use_cuda("cuda", true, 1, "stand_alone", {1}));
  EXPECT_TRUE(use_cuda("auto", true, 4, "data_parallel", {4}));
  EXPECT_TRUE(use_cuda("cuda", true, 1, "semi_auto", {1}));
  EXPECT_TRUE(use_cuda("cuda", true, 2, "semi_auto", {2}));
  EXPECT_FALSE(use_cuda("auto", false, 1, "auto", {1})) << "its tensors lie where those of the group do";
  test::expect_error(ErrorKind::config, {"parallel.mode parameter_server", "system.device=cpu"},
                     [&] { use_cuda("cuda", true, 2, "parameter_server", {2}); });
}

TEST(Device, CudaIsRefusedWithWhatThereIs) {
  require_device("cuda", world_of(1, 1), {2}, false);
  require_device("cuda", world_of(4, 2), {2}, false);
  require_device("cuda", world_of(4, 4), {1, "3"}, false);  // each rank sees its own
  require_device("cuda", world_of(4, 4), {1}, true);        // they share it
  require_device("cuda:1", world_of(4, 4), {2}, true);
  require_device("cpu", world_of(4, 4), {1}, false);
  require_device("auto", world_of(4, 4), {0}, false);
  const auto refused = [](const World& world, const CudaDevices& devices,
                          std::initializer_list<std::string_view> words) {
    test::expect_error(ErrorKind::config, words, [&] { require_device("cuda", world, devices, false); });
  };
  refused(world_of(1, 1), {0}, {"finds no CUDA device;", "system.device=cpu"});
  refused(world_of(1, 1), {0, ""}, {"finds no CUDA device (CUDA_VISIBLE_DEVICES=)"});
  refused(world_of(4, 4), {2, "0,3"}, {"4 ranks of this host, which has 2 CUDA devices (CUDA_VISIBLE_DEVICES=0,3)"});
  refused(world_of(8, 2), {1}, {"2 ranks of this host, which has 1 CUDA device:"});
  require_device("cuda:1", world_of(4, 1), {2}, false);
  const auto number_refused = [](int local_size, const CudaDevices& devices, std::string_view words) {
    test::expect_error(ErrorKind::config, {words},
                       [&] { require_device("cuda:1", world_of(4, local_size), devices, false); });
  };
  number_refused(1, {1}, "cuda:1 was requested, and this process has 1 CUDA device, numbered from 0");
  number_refused(2, {2}, "cuda:1 was requested on 2 ranks of this host");
  number_refused(1, {0}, "cuda:1 was requested, but this libtorch finds no CUDA device");
  refused(world_of(1, 1), {.built = false}, {"libtorch for CPUs", "system.device=cpu"});
}

TEST(Device, BackendsThatNeedOneSayWhatNamedThem) {
  require_device_for("nccl", "parallel.backend", world_of(2, 2), {2}, false);
  require_device_for("staged", "parallel.backend", world_of(4, 4), {1}, true);
  test::expect_error(ErrorKind::config, {"LOCKSTEP_BACKEND", "nccl carries CUDA tensors", "no CUDA device", "auto"},
                     [&] { require_device_for("nccl", "LOCKSTEP_BACKEND", world_of(1, 1), {0}, false); });
  test::expect_error(ErrorKind::config, {"nccl was requested on 4 ranks", "2 CUDA devices", "staged"},
                     [&] { require_device_for("nccl", "parallel.backend", world_of(4, 4), {2}, false); });
}

}  // namespace
}  // namespace lockstep::train
