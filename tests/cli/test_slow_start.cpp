// A start-up that takes long says by itself why.
#include "cli/network.h"
#include "cli/two_nodes.h"
#include "support/port.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <thread>

namespace lockstep::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kHeading = "the rendezvous is not complete after ";

std::size_t count(const std::string& text, const std::string& word) {
  std::size_t found = 0;
  for (auto at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++found;
  return found;
}

Environment rank_of_two(int rank, const std::string& address, const std::string& port) {
  return {{"RANK", std::to_string(rank)},
          {"WORLD_SIZE", "2"},
          {"LOCAL_RANK", "0"},
          {"LOCAL_WORLD_SIZE", "1"},
          {"MASTER_ADDR", address},
          {"MASTER_PORT", port},
          {"LOCKSTEP_DOCTOR_AFTER_S", "0.5"},
          {"LOCKSTEP_START_TIMEOUT_S", "6"}};
}

TEST(SlowStart, RankZeroNamesWhoIsMissing) {
  const Workbench bench;
  const auto ran =
      run_in(bench.path(), {"lockstep", "train", "--config", bench.config()}, rank_of_two(0, "127.0.0.1", free_port()));
  EXPECT_FALSE(ran.status.ok());
  EXPECT_EQ(count(ran.err, kHeading), 1u) << ran.err;
  EXPECT_THAT(ran.err, AllOf(HasSubstr("ERROR  presence  rank 1\n"), HasSubstr("fix: read what it printed")));
}

TEST(SlowStart, ThoroughARankSaysThatItCannotReachTheOthers) {
  const Workbench bench;
  const auto ran =
      run_in(bench.path(), {"lockstep", "train", "--config", bench.config()}, rank_of_two(1, "127.0.0.1", free_port()));
  EXPECT_FALSE(ran.status.ok());
  EXPECT_EQ(count(ran.err, kHeading), 1u) << ran.err;
  EXPECT_THAT(ran.err, AllOf(HasSubstr("ERROR  rendezvous  host "), HasSubstr("-> rank 0\n"),
                             HasSubstr("Connection refused"), HasSubstr("start rank 0")));
}

TEST(SlowStart, ThoroughGoesOnWhenTheOtherComes) {
  const Workbench bench;
  const auto port = free_port();
  const auto train = [&](int rank) {
    auto environment = rank_of_two(rank, "127.0.0.1", port);
    environment["LOCKSTEP_START_TIMEOUT_S"] = "60";
    environment["LOCAL_RANK"] = std::to_string(rank);
    environment["LOCAL_WORLD_SIZE"] = "2";
    return run_in(bench.path(), {"lockstep", "train", "--config", bench.config()}, environment);
  };
  auto first = std::async(std::launch::async, [&] { return train(0); });
  std::this_thread::sleep_for(std::chrono::seconds(2));
  const auto second = train(1);
  EXPECT_TRUE(second.status.ok()) << second.err;
  const auto zero = first.get();
  EXPECT_TRUE(zero.status.ok()) << zero.err;
  EXPECT_THAT(zero.err, HasSubstr(kHeading));
  expect_result(bench, 2);
}

TEST(SlowStart, TheVariableHasARule) {
  const Workbench bench;
  auto environment = rank_of_two(0, "127.0.0.1", free_port());
  environment["LOCKSTEP_DOCTOR_AFTER_S"] = "soon";
  const auto ran = run_in(bench.path(), {"lockstep", "train", "--config", bench.config()}, environment);
  EXPECT_FALSE(ran.status.ok());
  EXPECT_THAT(ran.err, HasSubstr("LOCKSTEP_DOCTOR_AFTER_S=\"soon\""));
}

// The ranks meet in the store, but the data connections take a way on which packets are lost.
TEST(SlowStart, ThePairThatCannotConnectIsNamed) {
  const TwoHosts hosts;
  if (!hosts.made()) GTEST_SKIP() << TwoHosts::kObstacle;
  // Rank 1 connects to the address that rank 0 publishes.
  add_interface(0, "docker0", "10.17.0.1");
  lose_packets(1, "10.17.0.1");
  const Workbench bench;
  const auto train = [&](int host) {
    auto environment = rank_of_two(host, TwoHosts::address(0), "6060");
    // Late enough for both to have come, also on a busy machine, when the doctor looks.
    environment["LOCKSTEP_START_TIMEOUT_S"] = "12";
    environment["LOCKSTEP_DOCTOR_AFTER_S"] = "6";
    if (host == 0) environment["LOCKSTEP_SOCKET_IFNAME"] = "docker0";
    return run_in(bench.path(), TwoHosts::on(host, {"lockstep", "train", "--config", bench.config()}), environment);
  };
  auto second = std::async(std::launch::async, [&] { return train(1); });
  const auto first = train(0);
  EXPECT_FALSE(first.status.ok());
  EXPECT_EQ(count(first.err, kHeading), 1u) << first.err;
  EXPECT_THAT(first.err, AllOf(HasSubstr("ERROR  links  host "), HasSubstr("(rank 1) -> host "),
                               HasSubstr("10.17.0.1 (docker0): no answer"), HasSubstr("LOCKSTEP_SOCKET_IFNAME")));
  EXPECT_THAT(second.get().err, Not(HasSubstr(kHeading)));
}

}  // namespace
}  // namespace lockstep::test
