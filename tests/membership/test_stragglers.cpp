#include <lockstep/membership/service/status.h>

#include <gtest/gtest.h>

namespace lockstep::membership {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

/// Workers whose steps end together, with their own parts in milliseconds; -1: not known.
std::vector<std::optional<StepTime>> workers_of(double step_ms, const std::vector<double>& own_ms) {
  std::vector<std::optional<StepTime>> workers;
  const auto time = [](double ms) { return microseconds(static_cast<std::int64_t>(ms * 1000)); };
  for (const double own : own_ms) {
    workers.push_back(own < 0 ? std::nullopt : std::optional(StepTime{time(step_ms), time(own)}));
  }
  return workers;
}

struct StepTimesCase {
  const char* what;
  double step_ms;
  std::vector<double> own_ms;
  std::vector<bool> stragglers;
};

TEST(Stragglers, AreThoseForWhomTheOthersWait) {
  const std::vector<StepTimesCase> cases = {
      {"nobody", 0, {}, {}},
      {"one worker has nobody to compare with", 60, {57}, {false}},
      {"one of two", 60, {57, 6}, {true, false}},
      {"one of four", 60, {6, 7, 57, 6}, {false, false, true, false}},
      {"two of five", 60, {6, 57, 55, 6, 7}, {false, true, true, false, false}},
      {"all alike", 60, {50, 51, 52, 50}, {false, false, false, false}},
      {"all exactly alike", 60, {50, 50, 50}, {false, false, false}},
      {"less than half as long again", 160, {100, 149, 100}, {false, false, false}},
      {"half as long again", 160, {100, 150, 100}, {false, true, false}},
      {"too short for a look", 8, {1, 5.9, 1}, {false, false, false}},
      {"just worth a look", 8, {1, 6, 1}, {false, true, false}},
      {"what counts is the network", 1000, {10, 90, 10}, {false, false, false}},
      {"a tenth of the step", 1000, {10, 110, 10}, {false, true, false}},
      {"some not known", 60, {-1, 57, -1, 6}, {false, true, false, false}},
      {"only one known", 60, {-1, 57, -1}, {false, false, false}},
      {"others that wait all the time", 60, {0, 57, 0}, {false, true, false}},
  };
  for (const auto& one : cases) {
    EXPECT_EQ(find_stragglers(workers_of(one.step_ms, one.own_ms)), one.stragglers) << one.what;
  }
}

}  // namespace
}  // namespace lockstep::membership
