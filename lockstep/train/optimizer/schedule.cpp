// Learning rates by kind: warm-up, then constant, step, exponential, cosine, polynomial or one-cycle; the table of
// schedule parts with their keys; and the arithmetic from batches, epochs and sinks to the steps of a run.
#include <lockstep/base/error.h>
#include <lockstep/train/keys/part_kinds.h>
#include <lockstep/train/optimizer/schedule.h>
#include <lockstep/train/part_settings.h>

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numbers>
#include <utility>

namespace lockstep::train {
namespace {

double decayed(const Schedule& schedule, std::int64_t decays) {
  return std::max(schedule.min_lr, schedule.base_lr * std::pow(schedule.gamma, static_cast<double>(decays)));
}

/// The share of the run after the warm-up that is done.
double share_done(const Schedule& schedule, std::int64_t t) {
  const auto length = schedule.total_steps - schedule.warmup_steps;
  const auto done = t - schedule.warmup_steps;
  return done >= length ? 1.0 : static_cast<double>(done) / static_cast<double>(length);
}

double half_cosine(double u) { return (1.0 + std::cos(std::numbers::pi * u)) / 2.0; }

/// From the base to the minimum, as `left` falls from 1 to 0.
double falling(const Schedule& schedule, double left) {
  return schedule.min_lr + (schedule.base_lr - schedule.min_lr) * left;
}

double own_rate(const Schedule& schedule, std::int64_t t) {
  const double rate = schedule.own(t);
  if (std::isfinite(rate) && rate >= 0) return rate;
  fail(ErrorKind::numeric, "scheduler", "the schedule gives step {} the learning rate {}", t, rate);
}

double one_cycle(const Schedule& schedule, std::int64_t t) {
  const double first = schedule.base_lr / schedule.div_factor;
  const double last = first / schedule.final_div_factor;
  const auto between = [&](double from, double to, double u) {
    return schedule.linear ? from + (to - from) * u : to + (from - to) * half_cosine(u);
  };
  const auto step = static_cast<double>(t);
  const auto end = static_cast<double>(schedule.total_steps - 1);
  const double peak = schedule.pct_start * static_cast<double>(schedule.total_steps) - 1.0;
  if (step <= peak) return between(first, schedule.base_lr, peak > 0 ? step / peak : 1.0);
  return between(schedule.base_lr, last, step >= end ? 1.0 : (step - peak) / (end - peak));
}

constexpr double kMostDistance = 1e9;
constexpr double kMostDivisor = 1e30;

void gamma_key(ConfigFields& fields, double& gamma) {
  fields.field("gamma", gamma, between(0, 1), "factor of one decay");
}

void unit_key(ConfigFields& fields, std::string& unit, std::string_view meaning) {
  fields.field("unit", unit, one_of({"epochs", "steps"}), meaning);
}

std::int64_t steps_in(const std::string& unit, const ScheduleSpan& span) {
  return unit == "epochs" ? span.steps_per_epoch : 1;
}

/// The options of that kind and the values of the run.
Schedule schedule_of(ScheduleKind kind, const ScheduleSpan& span) {
  Schedule schedule;
  schedule.kind = kind;
  schedule.base_lr = span.base_lr;
  schedule.min_lr = span.min_lr;
  schedule.warmup_steps = span.warmup_steps;
  schedule.total_steps = span.total_steps;
  return schedule;
}

using Rate = std::function<double(std::int64_t step)>;

Rate rates_of(Schedule schedule) {
  return [schedule = std::move(schedule)](std::int64_t step) { return learning_rate(schedule, step); };
}

Rate make_constant(const PartOptions&, const ScheduleSpan& span) {
  return rates_of(schedule_of(ScheduleKind::constant, span));
}

Rate make_step(const PartOptions& options, const ScheduleSpan& span) {
  const auto& settings = options.as<StepSettings>();
  auto schedule = schedule_of(ScheduleKind::step, span);
  schedule.step_size = settings.step_size * steps_in(settings.unit, span);
  schedule.gamma = settings.gamma;
  return rates_of(std::move(schedule));
}

Rate make_multi_step(const PartOptions& options, const ScheduleSpan& span) {
  const auto& settings = options.as<MultiStepSettings>();
  auto schedule = schedule_of(ScheduleKind::multi_step, span);
  for (const auto milestone : settings.milestones) {
    schedule.milestones.push_back(milestone * steps_in(settings.unit, span));
  }
  schedule.gamma = settings.gamma;
  return rates_of(std::move(schedule));
}

void check_multi_step(const SchedulerConfig& config) {
  const auto& at = config.options.as<MultiStepSettings>().milestones;
  if (at.empty()) {
    fail(ErrorKind::config, "config", "scheduler.name multi_step needs scheduler.milestones, e.g. [80, 120]");
  }
  if (std::ranges::adjacent_find(at, std::greater_equal<>()) == at.end()) return;
  fail(ErrorKind::config, "config", "scheduler.milestones must ascend, they are [{}]", fmt::join(at, ", "));
}

Rate make_exponential(const PartOptions& options, const ScheduleSpan& span) {
  const auto& settings = options.as<ExponentialSettings>();
  auto schedule = schedule_of(ScheduleKind::exponential, span);
  schedule.step_size = steps_in(settings.unit, span);
  schedule.gamma = settings.gamma;
  return rates_of(std::move(schedule));
}

Rate make_cosine(const PartOptions&, const ScheduleSpan& span) {
  return rates_of(schedule_of(ScheduleKind::cosine, span));
}

Rate make_polynomial(const PartOptions& options, const ScheduleSpan& span) {
  auto schedule = schedule_of(ScheduleKind::polynomial, span);
  schedule.power = options.as<PolynomialSettings>().power;
  return rates_of(std::move(schedule));
}

Rate make_one_cycle(const PartOptions& options, const ScheduleSpan& span) {
  const auto& settings = options.as<OneCycleSettings>();
  auto schedule = schedule_of(ScheduleKind::one_cycle, span);
  schedule.pct_start = settings.pct_start;
  schedule.linear = settings.anneal == "linear";
  schedule.div_factor = settings.div_factor;
  schedule.final_div_factor = settings.final_div_factor;
  return rates_of(std::move(schedule));
}

void check_one_cycle(const SchedulerConfig& config) {
  if (config.warmup_epochs > 0 || config.warmup_steps > 0) {
    fail(ErrorKind::config, "config",
         "scheduler.name one_cycle rises by itself (scheduler.pct_start, div_factor); remove scheduler.warmup_epochs "
         "and warmup_steps");
  }
  if (config.min_lr > 0) {
    fail(ErrorKind::config, "config",
         "scheduler.min_lr is {} and scheduler.name one_cycle ends at optimizer.lr / div_factor / final_div_factor; "
         "remove scheduler.min_lr",
         config.min_lr);
  }
}

std::int64_t divide_up(std::int64_t a, std::int64_t b) { return a / b + (a % b != 0 ? 1 : 0); }

std::int64_t warmup_of(const SchedulerConfig& config, std::int64_t steps_per_epoch) {
  if (config.warmup_steps > 0) return config.warmup_steps;
  return std::llround(config.warmup_epochs * static_cast<double>(steps_per_epoch));
}

Schedule make_schedule(const ResolvedRun& config, std::int64_t steps_per_epoch, std::int64_t total_steps) {
  const auto& scheduler = config.scheduler;
  const auto& part = part_named(config.parts->schedules, scheduler.name, "scheduler.name");
  if (!part.make) {
    fail(ErrorKind::invalid_argument, "scheduler", "the part {} has no function that makes its rates", part.name);
  }
  Schedule schedule;
  schedule.kind = ScheduleKind::own;
  schedule.base_lr = config.optimizer.lr;
  schedule.warmup_steps = warmup_of(scheduler, steps_per_epoch);
  schedule.warmup_factor = scheduler.warmup_factor;
  schedule.total_steps = total_steps;
  schedule.own = part.make(options_of(scheduler, part), {.base_lr = config.optimizer.lr,
                                                         .warmup_steps = schedule.warmup_steps,
                                                         .total_steps = total_steps,
                                                         .steps_per_epoch = steps_per_epoch,
                                                         .min_lr = scheduler.min_lr});
  return schedule;
}

}  // namespace

double learning_rate(const Schedule& schedule, std::int64_t t) {
  if (t < schedule.warmup_steps) {
    const double part = static_cast<double>(t + 1) / static_cast<double>(schedule.warmup_steps);
    return schedule.base_lr * (schedule.warmup_factor + (1.0 - schedule.warmup_factor) * part);
  }
  switch (schedule.kind) {
    case ScheduleKind::constant: return schedule.base_lr;
    case ScheduleKind::step:
    case ScheduleKind::exponential: return decayed(schedule, t / schedule.step_size);
    case ScheduleKind::multi_step: {
      const auto& at = schedule.milestones;
      return decayed(schedule, std::upper_bound(at.begin(), at.end(), t) - at.begin());
    }
    case ScheduleKind::cosine: return falling(schedule, half_cosine(share_done(schedule, t)));
    case ScheduleKind::polynomial: return falling(schedule, std::pow(1.0 - share_done(schedule, t), schedule.power));
    case ScheduleKind::one_cycle: return one_cycle(schedule, t);
    case ScheduleKind::own: return own_rate(schedule, t);
  }
  return schedule.base_lr;
}

void describe(ConfigFields& fields, StepSettings& settings) {
  fields.field("step_size", settings.step_size, between(1, kMostDistance), "distance between two decays");
  gamma_key(fields, settings.gamma);
  unit_key(fields, settings.unit, "what step_size counts");
}

void describe(ConfigFields& fields, MultiStepSettings& settings) {
  fields.field("milestones", settings.milestones, ascending(between(1, kMostDistance)), "when to decay");
  gamma_key(fields, settings.gamma);
  unit_key(fields, settings.unit, "what milestones count");
}

void describe(ConfigFields& fields, ExponentialSettings& settings) {
  gamma_key(fields, settings.gamma);
  unit_key(fields, settings.unit, "when to decay: after each of these");
}

void describe(ConfigFields& fields, PolynomialSettings& settings) {
  fields.field("power", settings.power, {.low = 0, .high = 1000, .low_excluded = true}, "1 is a straight line");
}

void describe(ConfigFields& fields, OneCycleSettings& settings) {
  fields.field("pct_start", settings.pct_start, from_to_below(0, 1),
               "share of the run in which the learning rate rises");
  fields.field("anneal", settings.anneal, one_of({"cosine", "linear"}), "shape of rise and fall");
  fields.field("div_factor", settings.div_factor, between(1, kMostDivisor), "begins at lr / div_factor");
  fields.field("final_div_factor", settings.final_div_factor, {.low = 0, .high = kMostDivisor, .low_excluded = true},
               "ends at lr / div_factor / final_div_factor");
}

std::vector<SchedulePart> schedule_parts() {
  return {{.name = "constant", .doc = "optimizer.lr all the time", .make = make_constant},
          {.name = "step",
           .doc = "times gamma after each step_size",
           .options = PartOptions::of(StepSettings{}),
           .make = make_step},
          {.name = "multi_step",
           .doc = "times gamma at each of milestones",
           .options = PartOptions::of(MultiStepSettings{}),
           .make = make_multi_step,
           .check = check_multi_step},
          {.name = "exponential",
           .doc = "times gamma once an epoch or a step",
           .options = PartOptions::of(ExponentialSettings{}),
           .make = make_exponential},
          {.name = "cosine",
           .doc = "half a cosine down to min_lr at the end of the run",
           .make = make_cosine,
           .looks_ahead = true},
          {.name = "polynomial",
           .doc = "a power of the rest of the run, down to min_lr",
           .options = PartOptions::of(PolynomialSettings{}),
           .make = make_polynomial,
           .looks_ahead = true},
          {.name = "one_cycle",
           .doc = "up to optimizer.lr and down again, in one run",
           .options = PartOptions::of(OneCycleSettings{}),
           .make = make_one_cycle,
           .looks_ahead = true,
           .check = check_one_cycle}};
}

RunLength run_length_of(const ResolvedRun& config, std::int64_t batches_per_epoch) {
  constexpr auto kNoLimit = std::numeric_limits<std::int64_t>::max();
  RunLength plan;
  plan.batches_per_epoch = batches_per_epoch;
  plan.steps_per_epoch = divide_up(batches_per_epoch, config.train.accumulate);
  // MindSpore's epochs are sinks.
  const bool sinks = config.train.dataset_sink_mode && config.train.sink_size > 0;
  const auto steps_of_epoch = sinks ? config.train.sink_size : plan.steps_per_epoch;
  const auto by_epochs = config.train.epochs ? *config.train.epochs * steps_of_epoch : kNoLimit;
  plan.total_steps = std::min(by_epochs, config.train.steps.value_or(kNoLimit));
  plan.epochs = divide_up(plan.total_steps, plan.steps_per_epoch);
  plan.schedule = make_schedule(config, plan.steps_per_epoch, plan.total_steps);
  return plan;
}

}  // namespace lockstep::train
