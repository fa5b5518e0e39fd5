// Accounts of ranks, each of which covers the time of the job once, and their means.
#include <lockstep/dashboard/goodput.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <utility>

namespace lockstep::dashboard {
namespace {

constexpr auto index(TimePart part) { return static_cast<std::size_t>(part); }

double sum_of(const Parts& parts) { return std::accumulate(parts.begin(), parts.end(), 0.0); }

double uncovered(const RankAccount& account, double at) { return std::max(0.0, at - sum_of(account.parts)); }

/// The part of the job to which a part of its process belongs.
std::size_t counted_as(const RankAccount& account, std::size_t part) {
  return account.replaces && part == index(TimePart::start) ? index(TimePart::lost) : part;
}

}  // namespace

void begin_process(Goodput& goodput, int rank, double at) {
  const auto so_far = parts_of(goodput, at);
  const auto [place, is_new] = goodput.ranks.try_emplace(rank);
  auto& account = place->second;
  account.process = {};
  account.seen = at;
  account.replaces = !is_new;
  account.present = is_new ? TimePart::start : TimePart::lost;
  if (is_new && so_far) account.parts = *so_far;
}

void report_times(Goodput& goodput, int rank, const TrainingProgress& training, double at) {
  auto& account = goodput.ranks[rank];
  Parts now{};
  for (std::size_t i = 0; i < now.size(); ++i) now[i] = std::chrono::duration<double>(training.times[i]).count();
  if (account.seen && sum_of(now) > 0) {
    // A process began before it was seen for the first time, and its report covers its time since then.
    const double before = std::min(*account.seen - sum_of(account.parts), uncovered(account, at) - sum_of(now));
    account.parts[counted_as(account, index(TimePart::start))] += std::max(0.0, before);
    account.seen.reset();
    account.reports = true;
    if (sum_of(now) > at) account.process = now;  // older than the page: only what comes counts
  }
  Parts more{};
  for (std::size_t i = 0; i < more.size(); ++i) more[counted_as(account, i)] += now[i] - account.process[i];
  account.process = now;
  // A rank may find out later that a time belongs to another part.
  for (std::size_t i = 0; i < more.size(); ++i) {
    if (more[i] < 0) account.parts[i] = std::max(0.0, account.parts[i] + std::exchange(more[i], 0));
  }
  const double wanted = sum_of(more);
  const double room = uncovered(account, at);
  const double counts = wanted > room ? room / wanted : 1;
  for (std::size_t i = 0; i < more.size(); ++i) account.parts[i] += more[i] * counts;
}

void set_present(Goodput& goodput, int rank, TimePart part) { goodput.ranks[rank].present = part; }

std::optional<Parts> parts_of(const Goodput& goodput, double at) {
  Parts sum{};
  double ranks = 0;
  for (const auto& [rank, account] : goodput.ranks) {
    if (!account.reports) continue;
    ++ranks;
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += account.parts[i];
    sum[counted_as(account, index(account.present))] += uncovered(account, at);
  }
  if (ranks == 0) return std::nullopt;
  for (auto& part : sum) part /= ranks;
  return sum;
}

double effective_ratio(const Parts& parts) {
  const double all = sum_of(parts);
  double effective = 0;
  for (const auto part : kPartsOfSteps) effective += parts[index(part)];
  return all > 0 ? effective / all : 0;
}

}  // namespace lockstep::dashboard
