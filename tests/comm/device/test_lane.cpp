// The order of streams around a collective, noted down where no device is (recorded_streams.h).
#include <lockstep/comm/device/lane.h>

#include "comm/device/recorded_streams.h"
#include "comm/suite.h"

#include <chrono>
#include <stdexcept>
#include <string>
#include <vector>

namespace lockstep::test {
namespace {

using Notes = std::vector<std::string>;

class LaneOrder : public testing::Test {
 protected:
  void SetUp() override { forget_streams(); }

  detail::Lane lane_{recorded_device()};
};

TEST_F(LaneOrder, OfOneOperation) {
  const auto input = at::ones({2});
  const auto output = at::ones({2});
  const auto operation = lane_.run({output, at::Tensor(), input}, [] { note("launch"); });
  EXPECT_EQ(take_notes(), (Notes{"record 1 on current", "lane waits for 1", "lane uses memory", "lane uses memory",
                                 "record 2 on lane", "launch", "record 3 on lane"}));
  EXPECT_EQ(lane_.last(), operation);
  EXPECT_FALSE(operation->has_begun());
  pass_event(2);
  EXPECT_TRUE(operation->has_begun());
  EXPECT_FALSE(operation->is_complete());
  pass_event(3);
  EXPECT_TRUE(operation->is_complete());
}

TEST_F(LaneOrder, WaitingOrdersTheCurrentStreamAndDoesNotBlock) {
  const auto work = detail::pending(lane_.run({}, [] {}));
  take_notes();
  EXPECT_FALSE(work->test());
  work->wait(std::chrono::milliseconds(0));
  EXPECT_EQ(take_notes(), Notes{"current waits for 3"});
  EXPECT_FALSE(work->test()) << "the device is not there yet";
  pass_event(3);
  EXPECT_TRUE(work->test());
}

TEST_F(LaneOrder, AnOperationThatCouldNotStartIsNotTheLast) {
  const auto first = lane_.run({}, [] {});
  EXPECT_THROW(lane_.run({}, [] { throw std::runtime_error("no"); }), std::runtime_error);
  EXPECT_EQ(lane_.last(), first);
}

TEST_F(LaneOrder, TheHostWaitsForWhatTheCurrentStreamHasToDo) {
  const auto now = std::chrono::steady_clock::now();
  EXPECT_FALSE(detail::await_current_stream(recorded_device(), now));
  EXPECT_EQ(take_notes(), Notes{"record 1 on current"});
  pass_event(2);
  EXPECT_TRUE(detail::await_current_stream(recorded_device(), now + std::chrono::minutes(1)));
}

}  // namespace
}  // namespace lockstep::test
