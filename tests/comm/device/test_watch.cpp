// The watch over operations on a device: what counts as a failure, and what follows from it. Its operations are said to
// begin and to be complete by the test.
#include <lockstep/comm/device/lane.h>

#include "comm/suite.h"

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <thread>

namespace lockstep::test {
namespace {

using namespace std::chrono_literals;

class Told : public detail::DeviceOperation {
 public:
  Told() : DeviceOperation(c10::Device(c10::kCPU)) {}
  bool has_begun() const override {
    ++asked;
    return begun;
  }
  bool is_complete() const override { return complete; }

  std::atomic<bool> begun{false};
  std::atomic<bool> complete{false};
  mutable std::atomic<int> asked{0};
};

// Fails the test where it takes as long as only a hang does.
template <typename Condition>
void wait_until(const Condition& condition) {
  const auto deadline = std::chrono::steady_clock::now() + 60s;
  while (!condition()) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline) << "what was waited for did not happen";
    std::this_thread::sleep_for(1ms);
  }
}

/// A watch whose actions are counted.
class DeviceWatches : public testing::Test {
 protected:
  void watch(std::chrono::milliseconds timeout, std::function<void()> check) {
    watch_ = std::make_unique<detail::DeviceWatch>(
        c10::Device(c10::kCPU), timeout,
        detail::WatchActions{.check =
                                 [this, check = std::move(check)] {
                                   ++checks_;
                                   if (check) check();
                                 },
                             .failed =
                                 [this](const detail::Call& call, std::exception_ptr problem, auto) {
                                   EXPECT_FALSE(engine_ended_);
                                   failures_ += std::string(call.op) + ": " +
                                                error_of([&] { std::rethrow_exception(problem); }).message() + "\n";
                                   if (on_failure_) on_failure_();
                                 },
                             .end_engine = [this] { engine_ended_ = true; }});
  }

  std::shared_ptr<Told> add(std::string_view op) {
    auto operation = std::make_shared<Told>();
    watch_->add({.op = op}, operation);
    return operation;
  }

  std::atomic<int> checks_{0};
  std::atomic<bool> engine_ended_{false};
  std::string failures_;  ///< of the watch's thread, until the engine is ended or the watch gone
  std::function<void()> on_failure_;
  std::unique_ptr<detail::DeviceWatch> watch_;
};

[[noreturn]] void lose_rank() { throw Error(ErrorKind::peer_lost, "group", "rank 1 is gone"); }

TEST_F(DeviceWatches, TheTimeoutCountsFromWhenTheDeviceBegins) {
  watch(50ms, nullptr);
  const auto late = add("all_reduce");
  // It is asked every 5 ms at most, so more than the timeout has passed.
  wait_until([&] { return late->asked > 20; });
  EXPECT_EQ(checks_, 0) << "others cannot be late for what has not begun";
  EXPECT_FALSE(watch_->is_over());
  late->begun = true;
  wait_until([&] { return engine_ended_.load(); });
  EXPECT_EQ(failures_, "all_reduce: it runs on cpu for 50 ms\n");
  EXPECT_TRUE(watch_->is_over());
}

TEST_F(DeviceWatches, ALossThatLastsFailsTheOperationThatRuns) {
  watch(10min, lose_rank);
  const auto first = add("broadcast");
  const auto second = add("all_reduce");
  first->complete = true;
  second->begun = true;
  wait_until([&] { return engine_ended_.load(); });
  EXPECT_EQ(failures_, "all_reduce: rank 1 is gone\n");
  EXPECT_GT(checks_, 1) << "one alone may be of a rank that ended in good order";
}

TEST_F(DeviceWatches, ARankThatEndsAfterItsPartIsNoLoss) {
  std::shared_ptr<Told> operation;
  std::promise<void> ready;
  watch(10min, [&, is_ready = ready.get_future().share()] {
    is_ready.wait();
    operation->complete = true;
    lose_rank();
  });
  operation = add("all_reduce");
  ready.set_value();
  operation->begun = true;
  wait_until([&] { return checks_ > 0; });
  const auto next = add("all_reduce");
  next->complete = true;
  watch_.reset();
  EXPECT_EQ(failures_, "");
  EXPECT_FALSE(engine_ended_);
}

TEST_F(DeviceWatches, AbortEndsTheEngineAndTheWatch) {
  watch(10min, lose_rank);
  const auto operation = add("all_reduce");
  watch_->abort();
  EXPECT_TRUE(watch_->is_over());
  wait_until([&] { return engine_ended_.load(); });
  add("later")->begun = true;
  operation->begun = true;
  watch_.reset();
  EXPECT_EQ(failures_, "");
}

TEST_F(DeviceWatches, ItMayGoInsideItsOwnAction) {
  watch(10min, lose_rank);
  on_failure_ = [this] { watch_.reset(); };
  std::weak_ptr<Told> left = [&] {
    const auto operation = add("all_reduce");
    operation->begun = true;
    return operation;
  }();
  wait_until([&] { return left.expired(); });  // the thread has ended, and let go of what it watched
}

}  // namespace
}  // namespace lockstep::test
