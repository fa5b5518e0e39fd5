#include <lockstep/comm/mpi/progress.h>
#include <lockstep/comm/mpi/reducer.h>

#include <lockstep/base/error.h>

#include <algorithm>
#include <memory>
#include <thread>
#include <utility>

namespace lockstep::detail::mpi {

using Clock = std::chrono::steady_clock;
using std::chrono::microseconds;
using std::chrono::milliseconds;

namespace {

// A rank that has done its part may end, and take the store along, while what it sent is on its way to this one.
bool completes_without_it(const std::function<bool()>& step) {
  constexpr auto kOnItsWay = std::chrono::seconds(1);
  const auto deadline = Clock::now() + kOnItsWay;
  while (Clock::now() < deadline) {
    advance_reductions();
    if (step()) return true;
    std::this_thread::sleep_for(microseconds(200));
  }
  return step();
}

}  // namespace

bool poll(const std::function<bool()>& step, std::int64_t bytes, milliseconds timeout,
          const std::function<void()>& look_around) {
  constexpr std::int64_t kSlowestBytesPerMicrosecond = 200;
  const auto without_pause = milliseconds(2) + microseconds(bytes / kSlowestBytesPerMicrosecond);
  constexpr auto kLookAround = milliseconds(50);
  const auto start = Clock::now();
  auto next_look = start + kLookAround;
  auto pause = microseconds(5);
  for (;;) {
    advance_reductions();
    if (step()) return true;
    const auto now = Clock::now();
    if (now - start >= timeout) return false;
    if (look_around && now >= next_look) {
      try {
        look_around();
      } catch (const Error&) {
        if (completes_without_it(step)) return true;
        throw;
      }
      next_look = now + kLookAround;
    }
    if (now - start < without_pause) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(pause);
      pause = std::min(pause * 2, microseconds(200));
    }
  }
}

Requests::~Requests() {
  if (requests_.empty() || !running()) return;
  int flag = 0;
  const auto result = MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &flag, MPI_STATUSES_IGNORE);
  if (result == MPI_SUCCESS && flag != 0) return;
  // Left to the end of the process on purpose: MPI may still read and write there.
  (void)used_.release();
}

MPI_Request* Requests::add() { return &requests_.emplace_back(MPI_REQUEST_NULL); }

bool Requests::complete() {
  if (requests_.empty()) return true;
  int flag = 0;
  check(MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &flag, MPI_STATUSES_IGNORE), "MPI_Testall");
  return flag != 0;
}

std::int64_t Requests::bytes() const {
  std::int64_t sum = 0;
  for (const auto& tensor : used_->tensors) {
    if (tensor.defined()) sum += static_cast<std::int64_t>(tensor.nbytes());
  }
  return sum;
}

}  // namespace lockstep::detail::mpi
