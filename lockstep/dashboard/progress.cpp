// Step times by differences of marks. A job stands when its last step is several step times ago; a straggler's reason
// compares its own part of a step with the median of the others.
#include <lockstep/base/shown_text.h>
#include <lockstep/base/step_times.h>
#include <lockstep/dashboard/progress.h>
#include <lockstep/membership/service/status.h>

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cmath>
#include <map>
#include <string>
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

/// Whether a rank is at another step or collective than at the last look.
bool take_places(JobView& view, const JobFacts& facts) {
  bool moved = false;
  for (const auto& one : facts.ranks) {
    if (!one.progress) continue;
    auto& place = view.ranks.at(one.process.rank).place;
    moved = moved || !same_place(place, *one.progress);
    place = *one.progress;
  }
  return moved;
}

/// Step, rate and time left.
void measure_progress(JobView& view, const JobFacts& facts) {
  auto& progress = view.progress;
  std::optional<std::int64_t> least;
  const RankView* lead = nullptr;
  for (const auto& [number, rank] : view.ranks) {
    if (rank.row.state == RankState::failed || !rank.row.step || rank.serves) continue;
    least = std::min(least.value_or(*rank.row.step), *rank.row.step);
    if (lead == nullptr && rank.marks.size() > 1) lead = &rank;
  }
  const bool calls = take_places(view, facts);
  if (least ? progress.step != least : calls) view.moved = view.now;
  if (least) progress.step = least;
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
  view.step_time = (last.at - first.at) / static_cast<double>(last.step - first.step);
  const double seconds = view.now - first.at;
  if (seconds <= 0) return;
  if (last.samples > first.samples)
    progress.samples_per_s = static_cast<double>(last.samples - first.samples) / seconds;
  if (progress.steps && progress.step) {
    const auto left = static_cast<double>(std::max<std::int64_t>(0, *progress.steps - *progress.step));
    progress.seconds_left = left * seconds / static_cast<double>(last.step - first.step);
  }
}

/// What most of the running ranks do, and which do something else.
std::string what_ranks_do(const JobView& view) {
  std::map<std::string, std::vector<int>> by_place;
  int all = 0;
  for (const auto& [number, rank] : view.ranks) {
    if (rank.serves || rank.row.state != RankState::running) continue;
    ++all;
    by_place[rank.row.call.empty() ? rank.row.activity : "in " + rank.row.call].push_back(number);
  }
  const auto most = std::ranges::max_element(by_place, {}, [](const auto& one) { return one.second.size(); });
  if (most == by_place.end() || most->first.empty()) return "";
  const auto count = static_cast<int>(most->second.size());
  if (count == all)
    return fmt::format("{} {}", all == 1 ? "Its rank is" : fmt::format("All {} ranks are", all), most->first);
  auto text = fmt::format("{} of {} ranks {} {}", count, all, count == 1 ? "is" : "are", most->first);
  for (const auto& [place, ranks] : by_place) {
    if (place == most->first) continue;
    text += fmt::format("; {} {} {}", names_of_ranks(ranks), ranks.size() == 1 ? "is" : "are",
                        place.empty() ? "not" : place);
  }
  return text;
}

/// Sets `stands` and `why`.
void judge_stop(JobView& view) {
  auto& progress = view.progress;
  progress.stands.reset();
  progress.why.clear();
  std::vector<int> lost, failed;
  bool runs = false;
  for (const auto& [number, rank] : view.ranks) {
    runs = runs || rank.row.state == RankState::running;
    if (rank.row.state == RankState::lost) lost.push_back(number);
    if (rank.row.state == RankState::failed) failed.push_back(number);
  }
  const double still = view.now - view.moved;
  const bool is_long = still >= (lost.empty() && failed.empty() ? longest_step(view.step_time) : kStillAfterLoss);
  if (view.generation == 0 || !view.has_status_pages || !runs || !is_long) return;
  progress.stands = still;
  if (!lost.empty()) {
    progress.why = fmt::format("{} {} lost", names_of_ranks(lost), lost.size() == 1 ? "is" : "are");
  } else if (!failed.empty()) {
    progress.why = fmt::format("{} {} failed", names_of_ranks(failed), failed.size() == 1 ? "has" : "have");
  } else {
    progress.why = what_ranks_do(view);
  }
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
