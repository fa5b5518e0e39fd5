// The table of schedule parts: keys and checks of each, and its rates with lengths in epochs converted to steps.
#include <lockstep/base/error.h>
#include <lockstep/train/optimizer/schedule.h>
#include <lockstep/train/optimizer/schedule_parts.h>
#include <lockstep/train/part_settings.h>

#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <utility>

namespace lockstep::train {
namespace {

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

}  // namespace

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

}  // namespace lockstep::train
