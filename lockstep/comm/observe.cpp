// The observation of a job through its status page; and clock offsets to rank 0 by 16 exchanges of messages for each
// rank: the shortest round trip decides.
#include <lockstep/base/error.h>
#include <lockstep/comm/collectives.h>
#include <lockstep/comm/group_impl.h>
#include <lockstep/comm/observe.h>

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <cstdint>
#include <utility>

namespace lockstep {

std::vector<GroupCalls> recent_calls(const Group& group) { return group.impl().job()->status_page().calls(); }

std::uint32_t name_place(const Group& group, std::string_view text) noexcept {
  return group.impl().job()->status_page().name_place(text);
}

void report_training(const Group& group, const TrainingProgress& training) noexcept {
  group.impl().job()->status_page().report(training);
}

std::chrono::nanoseconds time_blocked(const Group& group) noexcept { return group.impl().job()->time_blocked(); }

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::nanoseconds;

constexpr int kQuestions = 16;

nanoseconds now() { return Clock::now().time_since_epoch(); }

at::Tensor message() { return at::empty({1}, at::kLong); }

ClockOffset ask_rank_0(const Group& group) {
  ClockOffset best{nanoseconds(0), nanoseconds::max()};
  for (int i = 0; i < kQuestions; ++i) {
    auto time = message();
    const auto asked = now();
    send(time, group, 0);
    receive(time, group, 0);
    const auto offset = offset_from(asked, nanoseconds(*time.data_ptr<std::int64_t>()), now());
    if (offset.accuracy < best.accuracy) best = offset;
  }
  return best;
}

void answer(const Group& group, int rank) {
  for (int i = 0; i < kQuestions; ++i) {
    auto time = message();
    receive(time, group, rank);
    *time.data_ptr<std::int64_t>() = now().count();
    send(time, group, rank);
  }
}

}  // namespace

ClockOffset offset_from(nanoseconds asked, nanoseconds told, nanoseconds answered) {
  const auto half = (answered - asked) / 2;
  ClockOffset offset{told - (asked + half), half + nanoseconds(1)};  // an odd time is rounded down when it is halved
  if (std::chrono::abs(offset.to_rank_0) <= offset.accuracy) offset.to_rank_0 = nanoseconds(0);
  return offset;
}

ClockOffset clock_offset(const Group& group) {
  ClockOffset offset;
  for (int rank = 1; rank < group.size(); ++rank) {
    if (group.rank() == rank) offset = ask_rank_0(group);
    if (group.rank() == 0) answer(group, rank);
  }
  return offset;
}

}  // namespace lockstep
