#include <lockstep/base/error.h>
#include <lockstep/base/injected_fault.h>

#include <gtest/gtest.h>

namespace lockstep {
namespace {

std::optional<InjectedFault> ordered(const std::string& text) {
  return find_injected_fault({{"LOCKSTEP_FAULT", text}});
}

TEST(InjectedFault, IsReadFromOneVariable) {
  EXPECT_EQ(ordered(""), std::nullopt);
  const InjectedFault kill{.rank = 1, .step = 3, .action = FaultAction::kill, .place = FaultPlace::backward};
  EXPECT_EQ(ordered("rank=1,step=3,action=kill,place=backward"), kill);
  const InjectedFault slow{.rank = 0, .step = 2, .action = FaultAction::slow, .delay = std::chrono::milliseconds(7)};
  EXPECT_EQ(ordered("rank=0,step=2,action=slow,ms=7"), slow);
}

TEST(InjectedFault, RefusesWhatCannotHappen) {
  for (const char* text : {"rank=1", "rank=1,step=0,action=kill", "rank=1,step=3,action=kill,ms=5",
                           "rank=1,step=3,action=kill,place=nowhere", "rank=1,step=1,action=corrupt,place=connect"}) {
    EXPECT_THROW(ordered(text), Error) << text;
  }
}

}  // namespace
}  // namespace lockstep
