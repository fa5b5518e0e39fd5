// Times data-parallel training steps on fixed inputs: zero_grad, forward, loss, backward, optimizer.
// bench/vs_pytorch_ddp.py runs it in turn with bench/pytorch_ddp_step.py, which does the same with PyTorch DDP.
//
//   lockstep run --nproc-per-node 2 train_step --case mlp --warmup 3 --steps 20
//
// Rank 0 prints one JSON object.
#include <lockstep/lockstep.h>
#include <torch/torch.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <functional>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "cases.h"
#include "memory.h"

int main(int argc, char** argv) try {
  CLI::App app("Times data-parallel training steps");
  std::string case_name = "mlp";
  int warmup = 3;
  int steps = 20;
  app.add_option("--case", case_name,
                 "one of: resnet50_32, resnet18_32, resnet20_32, mlp, toy, resnet50_224, gpt2_124m")
      ->capture_default_str();
  app.add_option("--warmup", warmup, "steps before the clock starts")->capture_default_str();
  app.add_option("--steps", steps, "steps timed")->capture_default_str();
  lockstep::bench::Precision precision;
  app.add_flag("--bfloat16", precision.bfloat16, "forward under bfloat16 autocast");
  app.add_flag("--channels-last", precision.channels_last, "pictures and weights in channels_last");
  bool sharded = false;
  app.add_flag("--sharded-optimizer", sharded, "each rank updates its share of the parameters");
  lockstep::GroupOptions group_options;
  std::int64_t batch = 0;
  app.add_option("--batch", batch, "samples of a rank; 0: the case's own number");
  bool graph = false;
  app.add_flag("--graph", graph, "the step as a CUDA graph");
  app.add_option("--device", group_options.device, "cpu, or cuda for the device of the local rank");
  CLI11_PARSE(app, argc, argv);

  at::set_num_threads(1);
  torch::manual_seed(1);
  auto group = lockstep::init(group_options);
  const at::Device device(group.device());
  auto bench = lockstep::bench::make_case(case_name, precision, device, batch);
  lockstep::DataParallel parallel(bench.module, group);
  const auto options = torch::optim::SGDOptions(bench.lr).momentum(bench.momentum);
  std::function<void()> step;
  if (graph) {
    auto optimizer = std::make_shared<torch::optim::SGD>(bench.module->parameters(), options);
    auto graphed = std::make_shared<lockstep::GraphedStep>(
        parallel, *optimizer, [&](const std::vector<at::Tensor>& in) { return bench.loss_of(in.front()); });
    step = [&, optimizer, graphed] {
      graphed->run({bench.inputs});
      if (graphed->why_not_recorded()) throw std::runtime_error(*graphed->why_not_recorded());
    };
  } else {
    std::function<void()> update;
    if (sharded) {
      auto optimizer = std::make_shared<lockstep::ShardedOptimizer<torch::optim::SGD>>(parallel, options);
      update = [optimizer] { optimizer->step(); };
    } else {
      auto optimizer = std::make_shared<torch::optim::SGD>(bench.module->parameters(), options);
      update = [optimizer] { lockstep::update(*optimizer); };
    }
    step = [&, update] {
      bench.module->zero_grad(/*set_to_none=*/true);
      bench.loss().backward();
      update();
    };
  }
  const auto finish = [&] {
    if (device.is_cuda()) torch::cuda::synchronize(device.index());
    lockstep::barrier(group);
  };
  for (int i = 0; i < warmup; ++i) step();
  finish();
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < steps; ++i) step();
  finish();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();

  if (group.rank() == 0) {
    std::cout << nlohmann::json{{"case", case_name},
                                {"world", group.size()},
                                {"backend", group.backend()},
                                {"device", device.str()},
                                {"steps", steps},
                                {"seconds", seconds},
                                {"samples_per_s", static_cast<double>(bench.batch * group.size() * steps) / seconds},
                                {"peak_memory_mb", lockstep::bench::peak_memory_mb()}}
                     .dump()
              << std::endl;
  }
  return 0;
} catch (const std::exception& error) {
  std::cerr << "train_step: " << error.what() << '\n';
  return 1;
}
