// Step times by differences of marks; a straggler's reason compares its own part of a step with the median of the
// others.
#include <lockstep/base/step_times.h>
#include <lockstep/dashboard/slow_ranks.h>
#include <lockstep/membership/service/status.h>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <vector>

namespace lockstep::dashboard {
namespace {

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

}  // namespace

void judge_speed(std::map<int, RankView>& ranks, double now) {
  std::vector<std::optional<StepTime>> times;
  times.reserve(ranks.size());
  std::optional<std::chrono::microseconds> least;  // the shortest time blocked in collectives
  const auto workers = ranks.size() - static_cast<std::size_t>(std::ranges::count_if(
                                          ranks, [](const auto& one) { return one.second.serves; }));
  for (auto& [number, rank] : ranks) {
    judge_rate(rank, workers, now);
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
