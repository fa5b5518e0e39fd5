#include <lockstep/plan/measure/stopwatch.h>
#include <lockstep/train/auto_mode.h>
#include <lockstep/train/parallel_run.h>
#include <lockstep/train/run_data.h>
#include <lockstep/train/run_model.h>
#include <lockstep/train/runtime.h>
#include <lockstep/train/verify_plan.h>

#include <torch/torch.h>

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace lockstep::train {
namespace {

/// The median step; the first, which makes what later ones find, does not count.
double measured_step(const RunConfig& config, const Group& group) {
  const auto share = data_share(config, group);
  const auto data = load_train_data(config, share.index, share.count);
  const auto options = forward_options(config, choose_device(config.system, group.world()));
  const auto model = make_model(config, options.device);
  const auto run = make_parallel_run(config, model, group, options);
  seed_rank(config.system.seed, run->random_stream(), 0);
  const auto loader = data.make_loader();
  const auto steps = std::min(config.parallel.verify_plan + 1, data.sampler.steps_per_epoch());
  std::vector<double> times;
  model.module->train();
  loader->start(0, 0);
  for (std::int64_t i = 0; i < steps; ++i) {
    times.push_back(plan::seconds_of_slowest(group, [&] {
      run->step({.batches = 1, .pictures = data.sampler.global_batch_size(i), .lr = 0, .epoch = 1, .step_in_epoch = 1},
                *loader);
    }));
  }
  if (times.size() > 1) times.erase(times.begin());
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

RunConfig data_parallel(const RunConfig& asked) {
  const bool has_buffers = !make_model(asked, torch::kCPU).module->buffers().empty();
  return planned_as(asked, has_buffers ? "semi_auto" : "data_parallel");
}

}  // namespace

RunConfig faster_of_plan_and_data_parallel(const RunConfig& planned, const RunConfig& asked, const Group& group,
                                           std::vector<std::string>& remarks) {
  const auto plain = data_parallel(asked);
  const double of_plan = measured_step(planned, group);
  const double of_plain = measured_step(plain, group);
  const bool plan_wins = of_plan <= of_plain;
  remarks.push_back(
      fmt::format("measured over {} steps: the plan {:.2f} ms a step, data parallel {:.2f} ms; going on with {}",
                  asked.parallel.verify_plan, of_plan * 1e3, of_plain * 1e3, plan_wins ? "the plan" : "data parallel"));
  return plan_wins ? planned : plain;
}

}  // namespace lockstep::train
