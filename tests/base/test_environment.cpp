#include <lockstep/base/environment.h>

#include <cstdlib>

#include "base/expect_error.h"
#include "support/forks.h"

namespace lockstep {
namespace {

using test::expect_error;

TEST(Environment, CopiesThisProcess) {
  ASSERT_EQ(::setenv("LOCKSTEP_TEST_ENVIRONMENT", "a=b", 1), 0);
  const Environment environment = current_environment();
  ::unsetenv("LOCKSTEP_TEST_ENVIRONMENT");
  EXPECT_EQ(find(environment, "LOCKSTEP_TEST_ENVIRONMENT"), "a=b");
  EXPECT_EQ(find(current_environment(), "LOCKSTEP_TEST_ENVIRONMENT"), std::nullopt);
}

TEST(Environment, KeepsACopyOnDemand) {
  test::fork_ranks(1, {}, [](int) {
    ASSERT_EQ(::setenv("LOCKSTEP_TEST_ENVIRONMENT", "before", 1), 0);
    keep_environment();
    ASSERT_EQ(::setenv("LOCKSTEP_TEST_ENVIRONMENT", "after", 1), 0);
    EXPECT_EQ(find(current_environment(), "LOCKSTEP_TEST_ENVIRONMENT"), "before");
    keep_environment();
    EXPECT_EQ(find(current_environment(), "LOCKSTEP_TEST_ENVIRONMENT"), "after");
  });
}

TEST(Environment, TellsEmptyFromUnset) {
  const Environment environment = {{"EMPTY", ""}};
  EXPECT_EQ(find(environment, "EMPTY"), "");
  EXPECT_EQ(find(environment, "UNSET"), std::nullopt);
}

// What Kubernetes gives each container for each Service of its namespace.
TEST(Environment, TakesThePortOfAServiceForUnset) {
  const Environment environment = {{"MASTER_PORT", "tcp://10.0.0.11:6379"}, {"A_PORT", "udp://[fd00::1]:53"},
                                   {"B_PORT", "sctp://10.0.0.1:9"},         {"C_PORT", "6379"},
                                   {"METHOD", "tcp://10.0.0.11:6379"},      {"D_PORT", "tcp"}};
  for (const auto* name : {"MASTER_PORT", "A_PORT", "B_PORT"}) {
    EXPECT_EQ(find(environment, name), std::nullopt) << name;
    EXPECT_EQ(find_integer(environment, name, 1, 65535), std::nullopt) << name;
  }
  EXPECT_EQ(find_integer(environment, "C_PORT", 1, 65535), 6379);
  EXPECT_EQ(find(environment, "METHOD"), "tcp://10.0.0.11:6379");
  EXPECT_EQ(find(environment, "D_PORT"), "tcp");
}

TEST(Environment, ReadsIntegersInTheirRange) {
  const Environment environment = {{"LOW", "-3"}, {"HIGH", "9"}};
  EXPECT_EQ(find_integer(environment, "LOW", -3, 9), -3);
  EXPECT_EQ(find_integer(environment, "HIGH", -3, 9), 9);
  EXPECT_EQ(find_integer(environment, "UNSET", -3, 9), std::nullopt);
}

TEST(Environment, NamesTheVariableThatIsWrong) {
  const Environment environment = {
      {"WORDS", "two"}, {"EMPTY", ""}, {"FRACTION", "1.0"}, {"BIG", "10"}, {"SMALL", "-4"}};
  for (const auto* name : {"WORDS", "EMPTY", "FRACTION"}) {
    expect_error(ErrorKind::environment, {name, environment.find(name)->second, "not an integer", "-3", "9"},
                 [&] { find_integer(environment, name, -3, 9); });
  }
  expect_error(ErrorKind::environment, {"BIG=10", "out of range", "-3", "9"},
               [&] { find_integer(environment, "BIG", -3, 9); });
  expect_error(ErrorKind::environment, {"SMALL=-4", "out of range", "-3", "9"},
               [&] { find_integer(environment, "SMALL", -3, 9); });
}

}  // namespace
}  // namespace lockstep
