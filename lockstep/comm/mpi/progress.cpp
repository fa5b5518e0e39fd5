// The progress of MPI: every wait advances all pending operations of this process.
#include <lockstep/comm/mpi/progress.h>

#include <lockstep/base/error.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

namespace lockstep::detail::mpi {

using Clock = std::chrono::steady_clock;
using std::chrono::microseconds;
using std::chrono::milliseconds;

namespace {

// A rank that completed its part may end, together with the store, while its data is still in transfer to this rank.
bool completes_without_it(const std::function<bool()>& step) {
  constexpr auto kOnItsWay = std::chrono::seconds(1);
  const auto deadline = Clock::now() + kOnItsWay;
  while (Clock::now() < deadline) {
    advance_all();
    if (step()) return true;
    std::this_thread::sleep_for(microseconds(200));
  }
  return step();
}

/// The operations of all groups, because MPI's own collectives also advance at every call of MPI.
struct All {
  std::mutex mutex;
  std::vector<std::shared_ptr<UnderWay>> operations;  // in the order of their calls
  std::atomic<bool> any{false};
};

All& all() {
  static All operations;
  return operations;
}

class State : public WorkState {
 public:
  State(std::shared_ptr<UnderWay> operation, std::function<void()> look_around)
      : operation_(std::move(operation)), look_around_(std::move(look_around)) {}

  void wait(milliseconds timeout) override {
    if (!poll([this] { return operation_->done(); }, operation_->bytes(), timeout, look_around_)) {
      throw Error(ErrorKind::timeout, "mpi", "not complete");
    }
    operation_->rethrow();
  }

  bool test() override {
    if (!operation_->done()) advance_all();
    return operation_->done();
  }

  void check_peers() override {
    try {
      look_around_();
    } catch (const Error&) {
      if (!completes_without_it([this] { return operation_->done(); })) throw;
    }
  }

 private:
  std::shared_ptr<UnderWay> operation_;
  std::function<void()> look_around_;
};

}  // namespace

bool UnderWay::advance() {
  try {
    if (!move()) return false;
  } catch (...) {
    error_ = std::current_exception();
  }
  done_ = true;
  return true;
}

Backend::Pending start(std::shared_ptr<UnderWay> operation, std::function<void()> look_around) {
  {
    const std::lock_guard lock(all().mutex);
    all().operations.push_back(operation);
    all().any = true;
  }
  advance_all();
  return std::make_shared<State>(std::move(operation), std::move(look_around));
}

bool advance_all() {
  std::vector<std::shared_ptr<UnderWay>> over;  // they release their tensors after the lock
  const std::unique_lock lock(all().mutex, std::try_to_lock);
  if (!lock) return false;
  auto& operations = all().operations;
  for (auto& operation : operations) {
    if (operation->advance()) over.push_back(std::move(operation));
  }
  std::erase(operations, nullptr);
  all().any = !operations.empty();
  return !over.empty();
}

bool any_under_way() { return all().any; }

bool poll(const std::function<bool()>& step, std::int64_t bytes, milliseconds timeout,
          const std::function<void()>& look_around) {
  constexpr std::int64_t kSlowestBytesPerMicrosecond = 200;
  const auto without_pause = milliseconds(2) + microseconds(bytes / kSlowestBytesPerMicrosecond);
  constexpr auto kLookAround = milliseconds(50);
  const auto start = Clock::now();
  auto next_look = start + kLookAround;
  auto pause = microseconds(5);
  for (;;) {
    advance_all();
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
  // Kept on purpose until the process ends: MPI may still read and write there.
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
