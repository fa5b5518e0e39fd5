// The account of a rank's time with a clock and a group: one gather of all ranks' parts at the start, at checkpoints
// and at the end; one reduction of the blocked times of steps, whose minimum over ranks is communication.
#include <lockstep/comm/collectives.h>
#include <lockstep/comm/observe.h>
#include <lockstep/train/output/run_clock.h>

#include <torch/torch.h>

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <system_error>
#include <utility>
#include <vector>

namespace lockstep::train {
namespace {

using std::chrono::nanoseconds;

nanoseconds steady_now() { return std::chrono::steady_clock::now().time_since_epoch(); }

nanoseconds to_nanoseconds(double seconds) {
  return std::chrono::duration_cast<nanoseconds>(std::chrono::duration<double>(seconds));
}

double to_double(nanoseconds time) { return std::chrono::duration<double>(time).count(); }

/// The age of this process, to 10 ms; nullopt where the kernel does not show it.
std::optional<nanoseconds> age_of_process() {
  std::ifstream in("/proc/self/stat");
  std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  const auto end_of_name = text.rfind(')');  // the name may have spaces
  if (end_of_name == std::string::npos) return std::nullopt;
  std::istringstream fields(text.substr(end_of_name + 1));
  constexpr int kBefore = 19;  // between the name and the start
  std::string skipped;
  for (int i = 0; i < kBefore; ++i) fields >> skipped;
  std::int64_t ticks = 0;
  const auto ticks_per_second = ::sysconf(_SC_CLK_TCK);
  timespec up{};
  if (!(fields >> ticks) || ticks_per_second <= 0 || ::clock_gettime(CLOCK_BOOTTIME, &up) != 0) return std::nullopt;
  const auto begun = to_nanoseconds(static_cast<double>(ticks) / static_cast<double>(ticks_per_second));
  const auto age = std::chrono::seconds(up.tv_sec) + nanoseconds(up.tv_nsec) - begun;
  return std::max(age, nanoseconds(0));
}

nanoseconds begin_of_run() {
  static std::atomic<bool> is_later{false};  // the time before the first run of a process belongs to that run
  const auto now = steady_now();
  return is_later.exchange(true) ? now : now - age_of_process().value_or(nanoseconds(0));
}

/// What each rank tells the others of its account.
struct Row {
  enum Column { taken_part, furthest, wall, first_part };
  static constexpr std::size_t kColumns = first_part + kTimeParts.size();
};

std::vector<double> own_row(const KeptTimes& kept, nanoseconds now) {
  std::vector<double> row{kept.has_taken_part ? 1.0 : 0.0, static_cast<double>(kept.account.furthest()),
                          to_double(kept.account.wall(now))};
  for (const auto part : kept.account.parts()) row.push_back(to_double(part));
  return row;
}

/// [ranks, Row::kColumns]
at::Tensor gather_rows(const std::vector<double>& row, const Group& group) {
  return all_gather(torch::tensor(row, torch::kDouble).unsqueeze(0), group);
}

/// The time of the training in `next` and `start` of these batches.
class TimedBatches final : public samples::Batches {
 public:
  TimedBatches(std::unique_ptr<samples::Batches> batches, RunClock& clock)
      : batches_(std::move(batches)), clock_(clock) {}

  void start(std::int64_t epoch, std::int64_t step) override {
    const auto before = clock_.enter(TimePart::data);
    batches_->start(epoch, step);
    clock_.enter(before);
  }
  std::optional<samples::Batch> next() override {
    const auto before = clock_.enter(TimePart::data);
    auto batch = batches_->next();
    clock_.enter(before);
    return batch;
  }
  std::int64_t left_out() const override { return batches_->left_out(); }

 private:
  std::unique_ptr<samples::Batches> batches_;
  RunClock& clock_;
};

}  // namespace

KeptTimes::KeptTimes() : account(begin_of_run()) { shown.doing = TimePart::start; }

void KeptTimes::lose(const Group& group) {
  account.lose(steady_now());
  shown.doing = TimePart::lost;
  shown.times = account.own();
  report_training(group, shown);
}

RunClock::RunClock(KeptTimes& kept, const Group& group, bool common_steps, const std::string& work_dir)
    : kept_(kept), group_(group), common_steps_(common_steps), blocked_before_(kept.shown.blocked) {
  std::error_code failed;
  const auto folder = std::filesystem::absolute(work_dir, failed);  // readers have other working directories
  kept_.shown.work_dir = failed ? work_dir : folder.string();
  kept_.shown.metrics.reserve(kMetricsShown);
  show(kept_.account.now_in());
}

Moment RunClock::now() const noexcept { return {steady_now(), time_blocked(group_)}; }

void RunClock::complete_step(std::chrono::steady_clock::time_point at) {
  kept_.account.complete_step({at.time_since_epoch(), time_blocked(group_)}, common_steps_ && group_.size() > 1);
}

void RunClock::begin_step(std::int64_t number) {
  kept_.account.begin_step(number, now());
  if (kept_.shown.doing != kept_.account.now_in()) show(TimePart::compute);
}

TimePart RunClock::turn_to(TimePart part) {
  const auto before = enter(part);
  show(part);
  return before;
}

void RunClock::join(const SecondsByPart& earlier, std::int64_t completed) {
  auto& account = kept_.account;
  account.completed_before(completed);
  account.update(now());
  const auto rows = gather_rows(own_row(kept_, steady_now()), group_);
  const auto taken_part = rows.select(1, Row::taken_part);
  const bool goes_on = taken_part.sum().item<double>() > 0;
  PartTimes parts{};
  if (goes_on) {
    const auto means =
        (rows * taken_part.unsqueeze(1)).sum(0).div(taken_part.sum()).slice(0, Row::first_part).contiguous();
    for (std::size_t i = 0; i < parts.size(); ++i) parts[i] = to_nanoseconds(means.data_ptr<double>()[i]);
  } else {
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const auto found = earlier.find(kTimeParts.at(i));
      if (found != earlier.end()) parts[i] = to_nanoseconds(found->second);
    }
  }
  account.completed_before(static_cast<std::int64_t>(rows.select(1, Row::furthest).max().item<double>()));
  if (!goes_on) account.add_earlier(parts);
  if (goes_on && !kept_.has_taken_part) account.take_over(parts, steady_now());
  kept_.has_taken_part = true;
  show(account.now_in());
}

void RunClock::split_waits() {
  const auto& kept = kept_.account.kept();
  if (kept.empty()) return;
  auto least = torch::empty({static_cast<std::int64_t>(kept.size())}, torch::kLong);
  std::ranges::transform(kept, least.data_ptr<std::int64_t>(), [](nanoseconds time) { return time.count(); });
  all_reduce(least, group_, ReduceOp::min);
  std::vector<nanoseconds> times(kept.size());
  std::transform(least.data_ptr<std::int64_t>(), least.data_ptr<std::int64_t>() + kept.size(), times.begin(),
                 [](std::int64_t count) { return nanoseconds(count); });
  kept_.account.split(times);
}

TimeDivision RunClock::divide() {
  split_waits();
  const auto moment = now();
  kept_.account.update(moment);
  const auto rows = gather_rows(own_row(kept_, moment.time), group_);
  const auto means = rows.mean(0);
  const auto* mean = means.data_ptr<double>();
  TimeDivision division{.wall = mean[Row::wall]};
  for (std::size_t i = 0; i < kTimeParts.size(); ++i) {
    division.parts.emplace(kTimeParts.at(i), mean[Row::first_part + i]);
  }
  if (!common_steps_ || group_.size() == 1) return division;
  const auto waits = rows.select(1, Row::first_part + static_cast<std::int64_t>(TimePart::wait)).contiguous();
  const auto* first = waits.data_ptr<double>();
  const auto [least, most] = std::minmax_element(first, first + group_.size());
  division.shortest_wait = {.rank = static_cast<int>(least - first), .seconds = *least};
  division.longest_wait = {.rank = static_cast<int>(most - first), .seconds = *most};
  return division;
}

void RunClock::set_metric(std::string_view name, std::int64_t step, double value) {
  auto& metrics = kept_.shown.metrics;
  auto found = std::ranges::find(metrics, name, &MetricValue::name);
  if (found == metrics.end()) {
    if (metrics.size() >= kMetricsShown) return;
    metrics.push_back({.name = std::string(name), .step = step, .value = value});
    return;
  }
  found->step = step;
  found->value = value;
}

void RunClock::show(TimePart doing) noexcept {
  auto& shown = kept_.shown;
  shown.doing = kept_.account.now_in() == TimePart::lost ? TimePart::lost : doing;
  shown.times = kept_.account.own();
  shown.blocked = blocked_before_ + time_blocked(group_);
  report_training(group_, shown);
}

std::unique_ptr<samples::Batches> timed(std::unique_ptr<samples::Batches> batches, RunClock& clock) {
  return std::make_unique<TimedBatches>(std::move(batches), clock);
}

}  // namespace lockstep::train
