#include <lockstep/scheduler/stragglers.h>

#include <algorithm>

namespace lockstep::scheduler {
namespace {

using std::chrono::microseconds;

constexpr microseconds kWorthALook{5000};

// Without the one at `which`, of at least two that are sorted; of an even number, the lower of the two in the middle.
microseconds median_without(const std::vector<microseconds>& sorted, std::size_t which) {
  const std::size_t middle = (sorted.size() - 2) / 2;
  return sorted[middle < which ? middle : middle + 1];
}

bool holds_up(const StepTime& time, microseconds usual) {
  const auto more = time.own - usual;
  return more >= usual / 2 && more >= kWorthALook && more >= time.whole / 10;
}

}  // namespace

std::vector<bool> find_stragglers(const std::vector<std::optional<StepTime>>& workers) {
  std::vector<bool> found(workers.size(), false);
  std::vector<microseconds> own;
  for (const auto& time : workers) {
    if (time) own.push_back(time->own);
  }
  if (own.size() < 2) return found;
  std::sort(own.begin(), own.end());
  for (std::size_t i = 0; i < workers.size(); ++i) {
    if (!workers[i]) continue;
    const auto place = std::lower_bound(own.begin(), own.end(), workers[i]->own) - own.begin();
    found[i] = holds_up(*workers[i], median_without(own, static_cast<std::size_t>(place)));
  }
  return found;
}

}  // namespace lockstep::scheduler
