// Step times by differences of marks. A job stands when its last step is several step times ago; a straggler's reason
// compares its own part of a step with the median of the others.
#include <lockstep/base/shown_text.h>
#include <lockstep/base/step_times.h>
#include <lockstep/dashboard/job_view.h>
#include <lockstep/membership/service/status.h>

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::dashboard {
namespace {

constexpr double kStillAfterLoss = 3;

/// The seconds after which a job without a new step stands. Looks are about one second apart.
double longest_step(const std::optional<double>& step_time) {
  constexpr double kWithoutSteps = 15, kShortest = 3, kSteps = 5;
  return step_time ? std::max(kShortest, kSteps * *step_time) : kWithoutSteps;
}

// Looks are about one second apart, and steps end between them; shorter spans say little about a step.
constexpr double kShortestSpan = 4;

std::chrono::microseconds microseconds_of(double seconds) {
  return std::chrono::microseconds(std::llround(std::max(0.0, seconds) * 1e6));
}

std::optional<StepTime> step_time_of(const RankView& rank) {
  if (rank.serves || rank.row.state != RankState::running || rank.marks.size() < 3) return std::nullopt;
  const auto& first = rank.marks.front();
  const auto& last = rank.marks.back();
  const double span = last.at - first.at;
  if (span < kShortestSpan || last.step <= first.step) return std::nullopt;
  const auto steps = static_cast<double>(last.step - first.step);
  const double blocked = std::clamp(last.blocked - first.blocked, 0.0, span);
  return StepTime{microseconds_of(span / steps), microseconds_of((span - blocked) / steps)};
}

std::string reason_of(const std::vector<std::optional<StepTime>>& times, std::size_t which) {
  std::vector<double> others;
  for (std::size_t i = 0; i < times.size(); ++i) {
    if (times[i] && i != which) others.push_back(static_cast<double>(times[i]->own.count()) / 1000);
  }
  const auto middle = others.begin() + static_cast<std::ptrdiff_t>((others.size() - 1) / 2);
  std::nth_element(others.begin(), middle, others.end());
  const double own = static_cast<double>(times[which]->own.count()) / 1000;
  if (*middle < 0.05) return fmt::format("its own part of a step takes {:.1f} ms, that of the others almost none", own);
  return fmt::format("its own part of a step takes {:.1f} times the median of the others: {:.1f} ms, not {:.1f} ms",
                     own / *middle, own, *middle);
}

void judge_rate(RankView& rank, std::size_t ranks, double now) {
  rank.row.rate.reset();
  if (rank.row.state != RankState::running || rank.marks.size() < 2) return;
  const auto samples = rank.marks.back().samples - rank.marks.front().samples;
  const double seconds = now - rank.marks.front().at;
  // The samples are those of all ranks together.
  if (samples > 0 && seconds > 0) rank.row.rate = static_cast<double>(samples) / seconds / static_cast<double>(ranks);
}

/// Notes where the ranks are. Returns whether one has completed a step since the last look, or, in a job that reports
/// no steps, is at another collective.
bool note_places(JobView& view, const JobFacts& facts) {
  bool steps = false, calls = false;
  for (const auto& one : facts.ranks) {
    auto& rank = view.ranks.at(one.process.rank);
    if (!rank.serves && !rank.marks.empty()) steps = steps || rank.marks.back().at == view.now;
    if (!one.progress) continue;
    calls = calls || !same_place(rank.place, *one.progress);
    rank.place = *one.progress;
  }
  return view.progress.step ? steps : calls;
}

/// The duration of the last steps in seconds. Before the second look with steps, it is at most the time to the first.
double last_step_time(const RankView& rank) {
  const auto& first = rank.marks.front();
  const auto& last = rank.marks.back();
  return last.step > first.step ? (last.at - first.at) / static_cast<double>(last.step - first.step)
                                : first.at - rank.since;
}

/// Step, rate and time left.
void measure_progress(JobView& view, const JobFacts& facts) {
  auto& progress = view.progress;
  std::optional<std::int64_t> least;
  const RankView* lead = nullptr;
  for (const auto& [number, rank] : view.ranks) {
    if (fell(rank.row.state) || !rank.row.step || rank.serves) continue;
    least = std::min(least.value_or(*rank.row.step), *rank.row.step);
    if (!rank.marks.empty() && (lead == nullptr || lead->marks.size() < rank.marks.size())) lead = &rank;
  }
  if (least) progress.step = least;
  if (note_places(view, facts)) view.moved = view.now;
  for (const auto& rank : facts.ranks) {
    if (!rank.training.total_steps && !rank.training.epoch) continue;
    progress.steps = rank.training.total_steps;
    progress.epoch = rank.training.epoch;
    break;
  }
  progress.samples_per_s.reset();
  progress.seconds_left.reset();
  if (lead == nullptr) return;
  const auto& first = lead->marks.front();
  const auto& last = lead->marks.back();
  if (lead->marks.size() > 1 || !view.step_time) view.step_time = last_step_time(*lead);
  if (lead->marks.size() == 1) return;
  const double seconds = view.now - first.at;
  if (seconds <= 0) return;
  if (last.samples > first.samples)
    progress.samples_per_s = static_cast<double>(last.samples - first.samples) / seconds;
  if (progress.steps && progress.step) {
    const auto left = static_cast<double>(std::max<std::int64_t>(0, *progress.steps - *progress.step));
    progress.seconds_left = left * seconds / static_cast<double>(last.step - first.step);
  }
}

/// "is", "are", "has" or "have", and what follows.
std::string predicate_of(const RankRow& row, std::size_t ranks) {
  const auto* const is = ranks == 1 ? "is" : "are";
  if (row.state == RankState::failed) return ranks == 1 ? "has failed" : "have failed";
  if (row.state == RankState::lost) return fmt::format("{} lost", is);
  if (!row.call.empty()) return fmt::format("{} in {}", is, row.call);
  return fmt::format("{} {}", is, row.activity.empty() ? "running" : row.activity);
}

/// "ranks 0, 1 are in all_reduce 40; rank 2 is computing"; those that do the same together, most ranks first.
std::string what_ranks_do(const JobView& view) {
  std::map<std::string, std::vector<int>> by_place;
  for (const auto& [number, rank] : view.ranks) {
    const auto state = rank.row.state;
    if (rank.serves || state == RankState::starting || state == RankState::ended) continue;
    by_place[predicate_of(rank.row, 1)].push_back(number);
  }
  std::vector<std::vector<int>> places;
  for (auto& [place, ranks] : by_place) places.push_back(std::move(ranks));
  std::ranges::stable_sort(places, std::greater<>(), &std::vector<int>::size);
  std::string text;
  for (const auto& ranks : places) {
    const bool all = places.size() == 1 && ranks.size() > 1;
    text += fmt::format("{}{} {}", text.empty() ? "" : "; ",
                        all ? fmt::format("all {} ranks", ranks.size()) : names_of_ranks(ranks),
                        predicate_of(view.ranks.at(ranks.front()).row, ranks.size()));
  }
  return text;
}

/// Sets `stands` and `why`.
void judge_stop(JobView& view) {
  auto& progress = view.progress;
  progress.stands.reset();
  progress.why.clear();
  bool runs = false, has_loss = false;
  for (const auto& [number, rank] : view.ranks) {
    runs = runs || rank.row.state == RankState::running;
    has_loss = has_loss || fell(rank.row.state);
  }
  const double still = view.now - view.moved;
  const bool is_long = still >= (has_loss ? kStillAfterLoss : longest_step(view.step_time));
  if (view.generation == 0 || !view.has_status_pages || !runs || !is_long) return;
  progress.stands = still;
  progress.seconds_left.reset();
  progress.why = what_ranks_do(view);
  if (!progress.why.empty()) progress.why.front() = static_cast<char>(std::toupper(progress.why.front()));
}

}  // namespace

void take_progress(JobView& view, const JobFacts& facts) {
  measure_progress(view, facts);
  judge_stop(view);
}

void judge_speed(JobView& view) {
  auto& ranks = view.ranks;
  std::vector<std::optional<StepTime>> times;
  times.reserve(ranks.size());
  std::optional<std::chrono::microseconds> least;  // the shortest time blocked in collectives
  const auto workers = ranks.size() - static_cast<std::size_t>(std::ranges::count_if(
                                          ranks, [](const auto& one) { return one.second.serves; }));
  for (auto& [number, rank] : ranks) {
    judge_rate(rank, workers, view.now);
    times.push_back(step_time_of(rank));
    if (times.back()) {
      const auto blocked = times.back()->whole - times.back()->own;
      least = std::min(least.value_or(blocked), blocked);
    }
  }
  const auto stragglers = membership::find_stragglers(times);
  std::size_t i = 0;
  for (auto& [number, rank] : ranks) {
    const auto& time = times[i];
    const bool is_over = rank.row.state == RankState::ended || rank.row.state == RankState::failed;
    if (!is_over) rank.row.straggler = stragglers[i] ? reason_of(times, i) : "";  // the last word about it stays
    rank.row.waits.reset();
    if (time && time->whole.count() > 0) {
      const auto waits = time->whole - time->own - *least;
      rank.row.waits = static_cast<double>(waits.count()) / static_cast<double>(time->whole.count());
    }
    ++i;
  }
}

}  // namespace lockstep::dashboard
