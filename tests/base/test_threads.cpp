// Calls that are left behind after their deadline.
#include <gtest/gtest.h>
#include <lockstep/base/threads.h>

#include <atomic>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>

namespace lockstep {
namespace {

using namespace std::chrono_literals;

TEST(DetachedCall, ReturnsWhatTheWorkReturnsOrThrows) {
  EXPECT_EQ(call_within(30s, [] { return 5; }), 5);
  EXPECT_THROW(call_within(30s, []() -> int { throw std::runtime_error("no"); }), std::runtime_error);
  EXPECT_EQ(call_within(30s, [] { return std::string("after it"); }), "after it");
}

TEST(DetachedCall, LeavesBehindWhatDoesNotReturn) {
  const auto released = std::make_shared<std::atomic<bool>>(false);
  const auto stuck = [released] {
    while (!*released) std::this_thread::sleep_for(1ms);
    return true;
  };
  EXPECT_EQ(call_within(20ms, stuck), std::nullopt);
  EXPECT_EQ(call_within(30s, [] { return 1; }), 1) << "waited for a call that hangs";
  *released = true;
}

}  // namespace
}  // namespace lockstep
