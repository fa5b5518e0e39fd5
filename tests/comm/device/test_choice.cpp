// Which device a rank takes, and which ranks share one.
#include <lockstep/comm/device/devices.h>

#include "comm/suite.h"

#include <string>
#include <vector>

namespace lockstep::test {
namespace {

using detail::choose_cuda_device;
using detail::CudaDevices;
using detail::DeviceIdentity;
using detail::wants_cuda;

TEST(DeviceChoice, AutoIsCudaForABackendOfCuda) {
  EXPECT_TRUE(wants_cuda("auto", true));
  EXPECT_FALSE(wants_cuda("auto", false));
  for (const bool for_cuda : {true, false}) {
    EXPECT_TRUE(wants_cuda("cuda", for_cuda));
    EXPECT_TRUE(wants_cuda("cuda:0", for_cuda));
  }
  EXPECT_FALSE(wants_cuda("cpu", false));
  expect_words(error_of([] { wants_cuda("cpu", true); }), {"only CUDA tensors", "backend auto"});
  for (const auto* text : {"gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:128", "CUDA", ""}) {
    const auto error = error_of([&] { wants_cuda(text, false); });
    EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
    expect_words(error, {"auto, cpu, cuda or cuda:N", std::string("\"") + text + "\""});
  }
}

TEST(DeviceChoice, IsThatOfTheLocalRankAmongTheVisible) {
  EXPECT_EQ(choose_cuda_device("auto", 0, {1}), 0);
  EXPECT_EQ(choose_cuda_device("cuda", 3, {4, "4,5,6,7"}), 3);
  EXPECT_EQ(choose_cuda_device("cuda:2", 0, {4}), 2);
  EXPECT_EQ(choose_cuda_device("cuda", 3, {1, "3"}), 0) << "a view of its own";
  EXPECT_EQ(choose_cuda_device("cuda", 1, {2}, /*may_share=*/true), 1);
  EXPECT_EQ(choose_cuda_device("cuda", 5, {2}, /*may_share=*/true), 1) << "in turn";
}

TEST(DeviceChoice, RefusesWithWhatThereIs) {
  const auto refused = [](const char* wanted, int local_rank, const CudaDevices& devices, ErrorKind kind,
                          const std::vector<std::string>& words) {
    const auto error = error_of([&] { choose_cuda_device(wanted, local_rank, devices); });
    EXPECT_EQ(error.kind(), kind) << error.what();
    expect_words(error, words);
  };
  refused("auto", 0, {.built = false}, ErrorKind::unsupported, {"libtorch for CPUs", "docs/libtorch.md", "device cpu"});
  refused("cuda", 0, {0, ""}, ErrorKind::unsupported, {"no CUDA device (CUDA_VISIBLE_DEVICES=)"});
  refused("cuda:0", 0, {0}, ErrorKind::unsupported, {"no CUDA device;"});
  refused("cuda:2", 0, {2, "0,3"}, ErrorKind::invalid_argument,
          {"cuda:2", "2 CUDA devices (CUDA_VISIBLE_DEVICES=0,3)", "from 0"});
  refused("cuda", 2, {2}, ErrorKind::unsupported, {"local rank 2", "2 CUDA devices,", "at most 2 ranks", "gpu"});
  refused("cuda", 1, {1}, ErrorKind::unsupported, {"local rank 1", "1 CUDA device,", "at most 1 rank ", "staged"});
}

TEST(DeviceChoice, WhatLibtorchFindsIsConsistent) {
  const auto devices = detail::cuda_devices();
  EXPECT_GE(devices.count, 0);
  EXPECT_TRUE(devices.built || devices.count == 0);
}

DeviceIdentity device(const std::string& uuid, const std::string& shown) { return {uuid, shown}; }

std::string name_of(int rank) { return "rank " + std::to_string(rank) + " (pid 1 on a)"; }

TEST(DeviceIdentity, SurvivesTheMessage) {
  const auto identity = device("a1b2", "cuda:3, NVIDIA H100, PCI 0000:3b:00.0");
  const auto text = detail::encode(identity);
  EXPECT_EQ(text.size(), detail::kIdentityBytes);
  EXPECT_EQ(detail::decode_identity(text), identity);
  // What is too long is cut, and the message keeps its length.
  const auto cut = detail::encode(device("a1b2", std::string(1000, 'x')));
  EXPECT_EQ(cut.size(), detail::kIdentityBytes);
  EXPECT_EQ(detail::decode_identity(cut).uuid, "a1b2");
  EXPECT_THROW(detail::decode_identity("nothing"), Error);
}

TEST(DeviceIdentity, RanksThatShareADeviceAreNamed) {
  const auto a = device("a", "cuda:0, H100, PCI 3b");
  const auto b = device("b", "cuda:1, H100, PCI 86");
  const auto c = device("c", "cuda:0, H100, PCI 3b");  // of another host
  EXPECT_FALSE(detail::shared_devices({a, b, c}, "nccl", name_of));
  const auto shared = detail::shared_devices({a, b, a, c, b}, "nccl", name_of);
  ASSERT_TRUE(shared);
  for (const auto* words :
       {"nccl needs a device for each rank", "rank 0 (pid 1 on a) and rank 2 (pid 1 on a) use cuda:0",
        "rank 1 (pid 1 on a) and rank 4 (pid 1 on a) use cuda:1, H100, PCI 86", "--nproc-per-node gpu",
        "CUDA_VISIBLE_DEVICES"}) {
    EXPECT_NE(shared->find(words), std::string::npos) << words << " in " << *shared;
  }
  EXPECT_EQ(shared->find("rank 3"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::test
