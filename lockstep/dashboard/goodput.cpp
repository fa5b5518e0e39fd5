// Sums of ranks' accounts, with the time blocked in collectives divided by the minimum over ranks in each interval.
#include <lockstep/dashboard/goodput.h>

#include <algorithm>
#include <chrono>
#include <numeric>

namespace lockstep::dashboard {
namespace {

// Reports of ranks are up to one step apart. Over several steps this hardly matters.
constexpr double kInterval = 10;

constexpr auto index(TimePart part) { return static_cast<std::size_t>(part); }

constexpr bool is_blocked(std::size_t part) {
  return part == index(TimePart::communicate) || part == index(TimePart::wait);
}

double sum_of(const Parts& parts) { return std::accumulate(parts.begin(), parts.end(), 0.0); }

/// The blocked times that are not settled yet.
void divide_blocked(const Goodput& goodput, Parts& parts) {
  if (goodput.ranks.empty()) return;
  double least = goodput.ranks.begin()->second.blocked;
  double sum = 0;
  for (const auto& [rank, account] : goodput.ranks) {
    least = std::min(least, account.blocked);
    sum += account.blocked;
  }
  parts[index(TimePart::communicate)] += least;
  parts[index(TimePart::wait)] += std::max(0.0, sum / static_cast<double>(goodput.ranks.size()) - least);
}

}  // namespace

void begin_process(Goodput& goodput, int rank, double at) {
  auto& account = goodput.ranks[rank];
  if (account.reported > 0) {
    const double unreported = at - (account.since + account.reported);
    goodput.settled[index(TimePart::lost)] += std::max(0.0, unreported) / static_cast<double>(goodput.ranks.size());
  }
  account.process = {};
  account.reported = 0;
  account.since = at;
}

void report_times(Goodput& goodput, int rank, const TrainingProgress& training) {
  auto& account = goodput.ranks[rank];
  for (std::size_t i = 0; i < account.process.size(); ++i) {
    const double now = std::chrono::duration<double>(training.times[i]).count();
    const double more = std::max(0.0, now - account.process[i]);
    account.process[i] = std::max(account.process[i], now);
    if (is_blocked(i)) {
      account.blocked += more;
    } else {
      goodput.settled[i] += more / static_cast<double>(goodput.ranks.size());
    }
  }
  account.reported = sum_of(account.process);
}

void settle(Goodput& goodput, double at) {
  if (at - goodput.settled_at < kInterval) return;
  goodput.settled_at = at;
  divide_blocked(goodput, goodput.settled);
  for (auto& [rank, account] : goodput.ranks) account.blocked = 0;
}

std::optional<Parts> parts_of(const Goodput& goodput) {
  Parts parts = goodput.settled;
  divide_blocked(goodput, parts);
  return sum_of(parts) > 0 ? std::optional(parts) : std::nullopt;
}

double effective_ratio(const Parts& parts) {
  const double all = sum_of(parts);
  const double good = parts[index(TimePart::data)] + parts[index(TimePart::compute)] +
                      parts[index(TimePart::communicate)] + parts[index(TimePart::wait)];
  return all > 0 ? good / all : 0;
}

}  // namespace lockstep::dashboard
