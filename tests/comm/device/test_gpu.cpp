// What only runs on a device: the order of real streams, NCCL with one rank on one device, and groups of ranks on
// several. Skipped, with the reason, where there are too few.
#include <lockstep/base/temporary_folder.h>
#include <lockstep/comm/backend.h>
#include <lockstep/comm/backends.h>
#include <lockstep/comm/device/lane.h>

#include "comm/suite.h"
#include "support/devices.h"

#include <torch/torch.h>
#include <unistd.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

namespace lockstep::test {
namespace {

using namespace std::chrono_literals;

std::string why_not(int needed, const char* backend = "nccl") {
  if (!detail::backend_called(backend).built) return std::string("this build has no backend ") + backend;
  if (devices_here() >= needed) return "";
  return "needs " + std::to_string(needed) + " CUDA device" + (needed == 1 ? "" : "s") + ", and this machine has " +
         std::to_string(devices_here());
}

#define SKIP_WITHOUT_DEVICES(count) \
  if (const auto reason = why_not(count); !reason.empty()) GTEST_SKIP() << reason

RankOptions on_devices() {
  RankOptions options;
  options.group = RankOptions::test_group_options("nccl");
  options.deadline = 5min;
  return options;
}

int ranks_here() { return std::min(devices_here(), 4); }

at::Device device_of(const Group& group) { return at::Device(group.device()); }

const std::vector<ReduceOp>& ops_of(at::ScalarType dtype) {
  static const std::vector<ReduceOp> all = {ReduceOp::sum, ReduceOp::mean, ReduceOp::min, ReduceOp::max,
                                            ReduceOp::product};
  static const std::vector<ReduceOp> without_mean = {ReduceOp::sum, ReduceOp::min, ReduceOp::max, ReduceOp::product};
  return at::isFloatingType(dtype) ? all : without_mean;
}

/// What all_reduce and so on give on a device equals what they give on the CPU; small whole numbers are exact.
void expect_collectives_as_on_the_cpu(const Group& group) {
  const auto device = device_of(group);
  const int n = group.size();
  const auto on_device = [&](const at::Tensor& tensor) { return tensor.to(device); };
  for (const auto dtype : reduced_dtypes()) {
    for (const auto op : ops_of(dtype)) {
      auto tensor = on_device(numbers(group.rank(), {n * 2, 3}, dtype));
      const auto expected = reduced_numbers(n, {n * 2, 3}, dtype, op);
      all_reduce(tensor, group, op);
      const auto scattered = reduce_scatter(on_device(numbers(group.rank(), {n * 2, 3}, dtype)), group, op);
      auto reduced = on_device(numbers(group.rank(), {n * 2, 3}, dtype));
      reduce(reduced, group, n - 1, op);
      if (op == ReduceOp::mean && n == 3) continue;  // rounded differently
      EXPECT_TRUE(same(tensor.cpu(), expected)) << "all_reduce " << name(op) << " of " << dtype;
      EXPECT_TRUE(same(scattered.cpu(), expected.narrow(0, group.rank() * 2, 2))) << name(op) << " of " << dtype;
      const auto kept = group.rank() == n - 1 ? expected : numbers(group.rank(), {n * 2, 3}, dtype);
      EXPECT_TRUE(same(reduced.cpu(), kept)) << "reduce " << name(op) << " of " << dtype;
    }
  }
  for (const auto dtype : moved_dtypes()) {
    const auto own = numbers(group.rank(), {n, 2}, dtype);
    auto sent = on_device(own);
    broadcast(sent, group, n - 1);
    EXPECT_TRUE(same(sent.cpu(), numbers(n - 1, {n, 2}, dtype))) << "broadcast of " << dtype;
    EXPECT_TRUE(same(all_gather(on_device(own), group).cpu(), all_gather(own, group))) << "all_gather of " << dtype;
    EXPECT_TRUE(same(all_to_all(on_device(own), group).cpu(), all_to_all(own, group))) << "all_to_all of " << dtype;
    const auto gathered = gather(on_device(own), group, 0);
    const auto gathered_there = gather(own, group, 0);
    if (group.rank() == 0) {
      EXPECT_TRUE(same(gathered.cpu(), gathered_there)) << "gather of " << dtype;
    }
    const auto slice = own.narrow(0, 0, 1).contiguous();
    EXPECT_TRUE(same(scatter(on_device(own), group, 0, on_device(slice)).cpu(), scatter(own, group, 0, slice)))
        << "scatter of " << dtype;
  }
  auto strided = on_device(numbers(group.rank(), {4, 6}, at::kFloat)).t();
  all_reduce(strided, group);
  EXPECT_TRUE(same(strided.cpu().contiguous(), reduced_numbers(n, {4, 6}, at::kFloat, ReduceOp::sum).t().contiguous()));
}

TEST(OneGpu, AGroupOfOneRankCarriesItsTensors) {
  SKIP_WITHOUT_DEVICES(1);
  run_ranks(1, on_devices(), [](Rank& rank) {
    EXPECT_EQ(rank.group().device(), "cuda:0");
    EXPECT_EQ(rank.group().backend(), "self");
    auto tensor = at::ones({3}, device_of(rank.group()));
    auto work = all_reduce_async(tensor, rank.group());
    work.synchronize();
    EXPECT_TRUE(same(tensor.cpu(), at::ones({3})));
  });
}

// The lane's copy begins while the current stream still computes its input, and the current stream reads the copy.
TEST(OneGpu, StreamsAreOrdered) {
  SKIP_WITHOUT_DEVICES(1);
  fork_ranks(1, {.deadline = 5min}, [](int) {
    const at::Device device(at::kCUDA, 0);
    detail::Lane lane(device);
    const auto factor = at::eye(2048, device);
    for (int round = 0; round < 20; ++round) {
      auto input = at::full({2048, 2048}, static_cast<double>(round), factor.options());
      for (int i = 0; i < 20; ++i) input = at::mm(input, factor);
      auto output = at::zeros_like(input);
      const auto operation = lane.run({output, input}, [&] {
        const c10::StreamGuard on_lane(lane.stream());
        output.copy_(input, /*non_blocking=*/true);
      });
      input = at::Tensor();  // its memory may not be used again before it was copied
      const auto other = at::full({2048, 2048}, -1.0, factor.options());
      operation->order_current_stream();
      EXPECT_EQ(output.sum().item<double>(), 2048.0 * 2048 * round);
      EXPECT_TRUE(operation->is_complete());
    }
  });
}

/// A backend of NCCL with a single rank: all of its calls, without a second device.
TEST(OneGpu, NcclMovesAndReducesWithOneRank) {
  SKIP_WITHOUT_DEVICES(1);
  fork_ranks(1, {.deadline = 5min}, [](int) {
    detail::BackendContext context;
    context.store = c10::make_intrusive<c10d::HashStore>();
    context.start_timeout = context.timeout = 1min;
    context.device = {at::kCUDA, 0};
    context.hosts = {0};
    context.describe_rank = [](int) { return "rank 0"; };
    context.throw_if_lost = context.while_connecting = [](const std::vector<int>&) {};
    context.end_group = [](const detail::Call& call, std::exception_ptr, auto) {
      ADD_FAILURE() << call.op << " failed";
    };
    const auto beside = detail::backend_called("self").make(context);
    context.beside = beside.get();
    const auto nccl = detail::backend_called("nccl").make(context);
    const detail::Call call{.op = "test", .device = context.device};
    for (const auto dtype : reduced_dtypes()) {
      const auto values = numbers(0, {4, 3}, dtype);
      auto tensor = values.to(context.device);
      auto output = at::zeros_like(tensor);
      for (const auto op : ops_of(dtype)) {
        nccl->all_reduce(tensor, op, call)->wait(0ms);
        nccl->reduce(tensor, 0, op, call)->wait(0ms);
        nccl->reduce_scatter(output, tensor, op, call)->wait(0ms);
        EXPECT_TRUE(same(output.cpu(), values)) << dtype;
      }
    }
    auto tensor = numbers(0, {4, 3}, at::kShort).to(context.device);
    const auto expect_copied = [&](const auto& move) {
      auto output = at::zeros_like(tensor);
      move(output)->wait(0ms);
      EXPECT_TRUE(same(output.cpu(), tensor.cpu()));
    };
    nccl->broadcast(tensor, 0, call)->wait(0ms);
    expect_copied([&](at::Tensor& output) { return nccl->all_gather(output, tensor, call); });
    expect_copied([&](at::Tensor& output) { return nccl->all_to_all(output, tensor, call); });
    expect_copied([&](at::Tensor& output) { return nccl->gather(&output, tensor, 0, call); });
    expect_copied([&](at::Tensor& output) { return nccl->scatter(output, &tensor, 0, call); });
    EXPECT_THROW(nccl->send(tensor, 0, 1, call), Error) << "messages have no tags";
  });
}

TEST(OneGpu, TwoRanksOnItAreRefused) {
  SKIP_WITHOUT_DEVICES(1);
  auto options = on_devices();
  options.environment = {{"CUDA_VISIBLE_DEVICES", "0"}};
  run_ranks(2, options, [](Rank& rank) {
    const auto error = error_of([&] { rank.group(); });
    EXPECT_EQ(error.kind(), ErrorKind::unsupported);
    expect_words(error, {"needs a device for each rank", "rank 0 (pid ", "rank 1 (pid ", "cuda:0", "--nproc-per-node",
                         "backend staged"});
  });
}

RankOptions on_a_shared_device() {
  RankOptions options;
  options.group = RankOptions::test_group_options("staged");
  options.deadline = 5min;
  options.environment = {{"CUDA_VISIBLE_DEVICES", "0"}};
  return options;
}

TEST(OneGpu, RanksThatShareItGetTheBitsOfTheCpu) {
  if (const auto reason = why_not(1, "staged"); !reason.empty()) GTEST_SKIP() << reason;
  run_ranks(3, on_a_shared_device(), [](Rank& rank) {
    const auto& group = rank.group();
    EXPECT_EQ(group.backend(), "staged");
    EXPECT_EQ(group.device(), "cuda:0");
    expect_collectives_as_on_the_cpu(group);
    std::vector<at::Tensor> on_cpu;
    std::vector<at::Tensor> on_gpu;
    std::vector<Work> works;
    for (int i = 0; i < 20; ++i) {
      on_cpu.push_back(at::randn({1 << i}, at::detail::createCPUGenerator(100 * rank.rank() + i)));
      on_gpu.push_back(on_cpu.back().to(device_of(group)));
      works.push_back(all_reduce_async(on_gpu.back(), group));
    }
    for (std::size_t i = 0; i < works.size(); ++i) {
      works[i].wait();
      all_reduce(on_cpu[i], group);
      EXPECT_TRUE(same(on_gpu[i].cpu(), on_cpu[i])) << on_cpu[i].numel();
    }
    const int next = (rank.rank() + 1) % rank.size();
    const int before = (rank.rank() + rank.size() - 1) % rank.size();
    auto came = at::zeros({5}, device_of(group));
    auto received = receive_async(came, group, before, 2);
    send(at::full({5}, static_cast<float>(rank.rank()), came.options()), group, next, 2);
    received.wait();
    EXPECT_TRUE(same(came.cpu(), at::full({5}, static_cast<float>(before))));
    barrier(group);
  });
}

TEST(OneGpu, AKilledRankOfThoseThatShareItIsNamed) {
  if (const auto reason = why_not(1, "staged"); !reason.empty()) GTEST_SKIP() << reason;
  const auto outcomes = rank_outcomes(3, on_a_shared_device(), [](Rank& rank) {
    auto tensor = at::ones({1000}, device_of(rank.group()));
    all_reduce(tensor, rank.group());
    if (rank.rank() == 2) rank.kill_self();
    const auto error = error_of([&] { all_reduce(tensor, rank.group()); });
    EXPECT_EQ(error.kind(), ErrorKind::peer_lost);
    expect_words(error, {"rank 2"});
    EXPECT_EQ(at::ones({3}, tensor.options()).sum().item<float>(), 3) << "the device goes on";
  });
  for (int rank : {0, 1}) EXPECT_TRUE(outcomes[static_cast<std::size_t>(rank)].ok()) << describe(outcomes[0]);
}

TEST(Gpus, CollectivesGiveWhatTheyGiveOnTheCpu) {
  SKIP_WITHOUT_DEVICES(2);
  run_ranks(ranks_here(), on_devices(), [](Rank& rank) {
    EXPECT_EQ(rank.group().backend(), "nccl");
    EXPECT_EQ(rank.group().device(), "cuda:" + std::to_string(rank.rank()));
    expect_collectives_as_on_the_cpu(rank.group());
    barrier(rank.group());
  });
}

TEST(Gpus, Subgroups) {
  SKIP_WITHOUT_DEVICES(2);
  run_ranks(ranks_here(), on_devices(), [](Rank& rank) {
    auto before = at::ones({1 << 20}, device_of(rank.group()));
    all_reduce(before, rank.group());
    const auto last = rank.size() - 1;
    const auto group = rank.group().subgroup({last, 0});
    if (rank.rank() == last || rank.rank() == 0) {
      EXPECT_EQ(group->rank(), rank.rank() == 0 ? 1 : 0);
      expect_collectives_as_on_the_cpu(*group);
    }
    all_reduce(before, rank.group());
    EXPECT_EQ(before[0].item<float>(), static_cast<float>(rank.size() * rank.size()));
  });
}

TEST(Gpus, Messages) {
  SKIP_WITHOUT_DEVICES(2);
  run_ranks(2, on_devices(), [](Rank& rank) {
    const auto values = numbers(0, {1000}, at::kFloat);
    if (rank.rank() == 0) {
      send(values.to(device_of(rank.group())), rank.group(), 1);
    } else {
      auto tensor = at::zeros({1000}, device_of(rank.group()));
      receive(tensor, rank.group(), 0);
      EXPECT_TRUE(same(tensor.cpu(), values));
    }
  });
}

TEST(Gpus, DifferencesBetweenRanksAreAnErrorOnAllOfThem) {
  SKIP_WITHOUT_DEVICES(2);
  run_ranks(2, on_devices(), [](Rank& rank) {
    auto tensor = at::ones({rank.rank() == 0 ? 2 : 3}, device_of(rank.group()));
    expect_words(error_of([&] { all_reduce(tensor, rank.group()); }), {"float32[2] on cuda", "float32[3] on cuda"});
    // One on the CPU, the other on the device.
    auto placed = at::ones({4}, rank.rank() == 0 ? at::Device(at::kCPU) : device_of(rank.group()));
    const auto error = error_of([&] { all_reduce(placed, rank.group()); });
    EXPECT_EQ(error.kind(), ErrorKind::mismatch) << error.what();
    all_reduce(tensor = at::ones({2}, device_of(rank.group())), rank.group());
    EXPECT_TRUE(same(tensor.cpu(), at::full({2}, 2.0F)));
  });
}

TEST(Gpus, AnotherDeviceThanTheGroupsIsRefused) {
  SKIP_WITHOUT_DEVICES(2);
  run_ranks(2, on_devices(), [](Rank& rank) {
    auto elsewhere = at::ones({2}, at::Device(at::kCUDA, static_cast<at::DeviceIndex>(1 - rank.rank())));
    expect_words(error_of([&] { all_reduce(elsewhere, rank.group()); }),
                 {"the tensor is on cuda:" + std::to_string(1 - rank.rank()), rank.group().device()});
  });
}

// The others wait on the device, and their host in a copy, which no deadline ends.
TEST(Gpus, AKilledPeerIsNamedAndWaitingEnds) {
  SKIP_WITHOUT_DEVICES(2);
  for (const auto& outcome : rank_outcomes(2, on_devices(), [](Rank& rank) {
         auto tensor = at::ones({1 << 20}, device_of(rank.group()));
         all_reduce(tensor, rank.group());
         const auto pids = all_gather(at::full({1}, static_cast<std::int64_t>(::getpid()), at::kLong), rank.group());
         if (rank.rank() == 1) rank.kill_self();
         const auto group = rank.group().unchecked();
         const auto error = error_of([&] {
           auto work = all_reduce_async(tensor, group);
           work.wait();
           tensor.cpu();
           all_reduce(tensor, group);
         });
         EXPECT_EQ(error.kind(), ErrorKind::peer_lost) << error.what();
         expect_words(error, {"rank 1 (pid " + std::to_string(pids[1].item<std::int64_t>())});
       })) {
    EXPECT_TRUE(outcome.rank == 1 ? outcome.status.signal == SIGKILL : outcome.ok()) << describe(outcome);
  }
}

TEST(Gpus, AbortEndsWhatWaitsOnTheOthers) {
  SKIP_WITHOUT_DEVICES(2);
  run_ranks(2, on_devices(), [](Rank& rank) {
    auto tensor = at::ones({1 << 20}, device_of(rank.group()));
    all_reduce(tensor, rank.group());
    if (rank.rank() == 1) return rank.group().abort("enough");
    const auto group = rank.group().unchecked();
    const auto error = error_of([&] {
      auto work = all_reduce_async(tensor, group);
      work.synchronize();
      all_reduce(tensor, group);
    });
    expect_words(error, {"enough"});
  });
}

TEST(Gpus, AnOperationThatTakesTooLongIsATimeout) {
  SKIP_WITHOUT_DEVICES(2);
  auto options = on_devices();
  options.group.timeout = 2s;
  const TemporaryFolder folder;
  run_ranks(2, options, [seen = folder.path() / "seen"](Rank& rank) {
    auto tensor = at::ones({1 << 20}, device_of(rank.group()));
    all_reduce(tensor, rank.group());
    if (rank.rank() == 1) {  // lives, and takes no part
      const auto deadline = std::chrono::steady_clock::now() + 2min;
      while (!std::filesystem::exists(seen) && std::chrono::steady_clock::now() < deadline) {
        std::this_thread::sleep_for(10ms);
      }
      EXPECT_TRUE(std::filesystem::exists(seen));
      return;
    }
    auto work = all_reduce_async(tensor, rank.group().unchecked());
    // The work of the stream after it ends with it, and the group says why.
    const auto error = error_of([&] {
      work.wait();
      tensor.cpu();
      all_reduce(tensor, rank.group());
    });
    EXPECT_EQ(error.kind(), ErrorKind::timeout) << error.what();
    expect_words(error, {"all_reduce", "rank 1 (pid ", "did not take part"});
    std::ofstream(seen) << "here";
  });
}

}  // namespace
}  // namespace lockstep::test
