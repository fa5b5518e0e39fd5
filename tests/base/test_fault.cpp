#include <lockstep/base/error.h>
#include <lockstep/base/fault.h>

#include <gtest/gtest.h>

namespace lockstep {
namespace {

std::optional<Fault> ordered(const std::string& text) { return find_fault({{"LOCKSTEP_FAULT", text}}); }

TEST(Fault, IsReadFromOneVariable) {
  EXPECT_EQ(ordered(""), std::nullopt);
  const Fault kill{.rank = 1, .step = 3, .action = FaultAction::kill, .place = FaultPlace::backward};
  EXPECT_EQ(ordered("rank=1,step=3,action=kill,place=backward"), kill);
  const Fault slow{.rank = 0, .step = 2, .action = FaultAction::slow, .delay = std::chrono::milliseconds(7)};
  EXPECT_EQ(ordered("rank=0,step=2,action=slow,ms=7"), slow);
}

TEST(Fault, RefusesWhatCannotHappen) {
  for (const char* text : {"rank=1", "rank=1,step=0,action=kill", "rank=1,step=3,action=kill,ms=5",
                           "rank=1,step=3,action=kill,place=nowhere", "rank=1,step=1,action=corrupt,place=connect"}) {
    EXPECT_THROW(ordered(text), Error) << text;
  }
}

}  // namespace
}  // namespace lockstep
