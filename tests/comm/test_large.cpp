// More bytes than 32 bits count: slow and hungry, so only two ranks and one operation each, and only thoroughly.
#include "comm/suite.h"

namespace lockstep::test {
namespace {

std::vector<Case> pairs() {
  std::vector<Case> two;
  for (const auto& one : cases()) {
    if (one.second == 2) two.push_back(one);
  }
  return two;
}

class Large : public CommSuite {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Large);
INSTANTIATE_TEST_SUITE_P(Thorough, Large, testing::ValuesIn(pairs()), case_name);

TEST_P(Large, BroadcastOfMoreThanTwoToThe31Bytes) {
  run([](Rank& rank) {
    constexpr std::int64_t kBytes = (std::int64_t{1} << 31) + 5;
    auto tensor = at::empty({kBytes}, at::kByte);
    // Every millionth byte and the last ones tell where they lie.
    const auto marks = at::cat({at::arange(0, kBytes, 1000003, at::kLong), at::arange(kBytes - 9, kBytes, at::kLong)});
    const auto expected = (marks % 251).to(at::kByte);
    if (rank.rank() == 0) {
      tensor.zero_();
      tensor.index_put_({marks}, expected);
    }
    broadcast(tensor, rank.group());
    EXPECT_TRUE(same(tensor.index({marks}), expected));
  });
}

}  // namespace
}  // namespace lockstep::test
