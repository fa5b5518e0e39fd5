// The timing of a plan and of data parallel with the run's own data: medians of the slowest rank's steps.
#include <lockstep/plan/measure/timing.h>
#include <lockstep/train/modes/auto_mode.h>
#include <lockstep/train/modes/parallel_run.h>
#include <lockstep/train/modes/run_model.h>
#include <lockstep/train/modes/verify_plan.h>
#include <lockstep/train/resources/run_data.h>
#include <lockstep/train/resources/runtime.h>

#include <torch/torch.h>

#include <algorithm>
#include <vector>

namespace lockstep::train {
namespace {

/// The clock cannot resolve smaller differences. Data parallel is then preferred because it is simpler: each rank has
/// the whole model.
constexpr double kClearlyLess = 0.97;

/// The median step. The first step does not count, because it allocates what later steps reuse.
double measured_step(const RunConfig& config, const Program& program, const Group& group, int wanted) {
  const auto share = data_share(config, group);
  const auto data = load_train_data(config, program, share.index, share.count);
  const auto options = forward_options(config, choose_device(config, group));
  const auto model = make_model(config, program, options.device);
  const auto run = make_parallel_run(config, model, group, options);
  seed_rank(config.system.seed, run->random_stream(), 0);
  const auto batches = data.batches(options.device);
  const auto of_epoch = data.sampler.steps_per_epoch();
  std::vector<double> times;
  model.module->train();
  for (std::int64_t i = 0; i <= wanted; ++i) {
    if (i % of_epoch == 0) batches->start(i / of_epoch, 0);
    const double seconds = plan::seconds_of_slowest(group, [&] {
      run->step({.batches = 1,
                 .samples = data.sampler.global_batch_size(i % of_epoch),
                 .lr = 0,
                 .epoch = 1,
                 .step_in_epoch = 1},
                *batches);
    });
    if (i > 0) times.push_back(seconds);  // the first step is a warm-up
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

}  // namespace

RunConfig faster_of_plan_and_data_parallel(const RunConfig& planned, const RunConfig& asked, const Program& program,
                                           const Group& group, std::vector<std::string>& remarks) {
  const auto plain = as_data_parallel(asked, program, group.size());
  const auto measured = [&](const RunConfig& config) {
    return [&config, &program, &group](int steps) { return measured_step(config, program, group, steps); };
  };
  const auto steps = static_cast<int>(asked.parallel.verify_plan);
  return plan::beats_data_parallel(steps, kClearlyLess, measured(planned), measured(plain), remarks) ? planned : plain;
}

}  // namespace lockstep::train
