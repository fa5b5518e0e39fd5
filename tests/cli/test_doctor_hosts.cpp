// `lockstep doctor` between two hosts with something wrong between them.
#include "cli/doctor_report.h"
#include "cli/network.h"
#include "cli/two_nodes.h"

#include <lockstep/base/temporary_folder.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <future>

namespace lockstep::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class DoctorOnTwoHosts : public testing::Test {
 protected:
  void SetUp() override {
    if (!hosts_.made()) GTEST_SKIP() << TwoHosts::kObstacle;
  }

  /// On one host, started as node `host` of two.
  Captured on(int host, const Words& more = {}, const Environment& variables = {}) const {
    Words words = {"lockstep",    "run",  "--no-prefix", "--nodes", "10.77.0.1,10.77.0.2",
                   "--ctrl_port", "9988", "lockstep",    "doctor"};
    words.insert(words.end(), more.begin(), more.end());
    return run_in(folder_.path(), TwoHosts::on(host, words), variables);
  }

  /// On both at once; by host.
  std::array<Captured, 2> on_both(const Words& more = {}, const std::array<Environment, 2>& variables = {}) const {
    auto second = std::async(std::launch::async, [&] { return on(1, more, variables[1]); });
    Captured first = on(0, more, variables[0]);
    return {std::move(first), second.get()};
  }

  /// On one host, as the rank of that number of two that meet at `master`.
  Captured rank(int host, const std::string& master) const {
    return run_in(folder_.path(), TwoHosts::on(host, {"lockstep", "doctor", "--json"}),
                  {{"RANK", std::to_string(host)},
                   {"WORLD_SIZE", "2"},
                   {"LOCAL_RANK", "0"},
                   {"LOCAL_WORLD_SIZE", "1"},
                   {"MASTER_ADDR", master},
                   {"MASTER_PORT", "6060"}});
  }

  const TwoHosts hosts_;
  const TemporaryFolder folder_;
};

TEST_F(DoctorOnTwoHosts, AllIsWell) {
  const auto ran = on_both({"--same", LOCKSTEP_BINARY});
  for (const auto& host : ran) EXPECT_TRUE(host.status.ok()) << host.out << host.err;
  EXPECT_THAT(ran[0].out, AllOf(StartsWith(kDoctor), HasSubstr("10.77.0.1 (ls"), HasSubstr("10.77.0.2 (ls"),
                                HasSubstr("fine: 2 ranks, 2 hosts, 2 ways connected")));
  EXPECT_EQ(ran[1].out, "");
}

// "A virtual interface": the second host offers an address that the first has no route to, while the other way is open.
TEST_F(DoctorOnTwoHosts, OneWayIsBlocked) {
  add_interface(1, "docker0", "10.78.0.2");
  const auto ran = on_both({}, {Environment{}, over("docker0")});
  for (const auto& host : ran) EXPECT_EQ(host.status, kUnsound) << host.out << host.err;
  const auto& out = ran[0].out;
  EXPECT_THAT(out, HasSubstr("\nERROR  links  host "));
  EXPECT_THAT(out, AllOf(HasSubstr("(rank 0) -> host "), Not(HasSubstr("(rank 1) -> host"))));
  EXPECT_THAT(out,
              AllOf(HasSubstr("10.78.0.2"), HasSubstr("unreachable"), HasSubstr("LOCKSTEP_SOCKET_IFNAME=docker0")));
  EXPECT_THAT(out, AllOf(HasSubstr("(10.77.0.2)"), HasSubstr("WARNING  interfaces"), HasSubstr("1 error")));
}

// "A container in Docker's own network": it comes out, and nobody comes in.
TEST_F(DoctorOnTwoHosts, ThoroughAContainerCannotBeReached) {
  add_interface(1, "eth0", "172.17.0.2");
  lose_packets(0, "172.17.0.2");
  auto container = over("eth0");
  container["KUBERNETES_SERVICE_HOST"] = "10.96.0.1";
  const auto ran = on_both({}, {Environment{}, container});
  EXPECT_EQ(ran[0].status, kUnsound);
  EXPECT_THAT(ran[0].out, AllOf(HasSubstr("ERROR  links  host "), HasSubstr("172.17.0.2 (eth0): no answer"),
                                HasSubstr("runs in a container"), HasSubstr("--net=host")));
  EXPECT_THAT(ran[0].out, HasSubstr("WARNING  containers"));
}

// "A firewall": what one host sends to the other is lost, on a network beside that where the ranks meet.
TEST_F(DoctorOnTwoHosts, ThoroughPacketsAreLostOneWay) {
  add_interface(1, "eth0", "10.78.0.2");
  lose_packets(0, "10.78.0.2");
  auto container = Environment{{"NCCL_SOCKET_IFNAME", "eth"}};
  container["KUBERNETES_SERVICE_HOST"] = "10.96.0.1";
  const auto ran = on_both({}, {Environment{{"KUBERNETES_SERVICE_HOST", "10.96.0.1"}}, container});
  EXPECT_EQ(ran[0].status, kUnsound);
  const auto fix = fix_of("links", ran[0].out);
  EXPECT_THAT(fix, AllOf(HasSubstr("firewall on both hosts"), HasSubstr("open all TCP ports both ways")));
  EXPECT_LT(fix.find("firewall"), fix.find("--net=host")) << fix;
  EXPECT_THAT(ran[0].out, HasSubstr("NCCL_SOCKET_IFNAME=eth"));
}

TEST_F(DoctorOnTwoHosts, ThoroughThePlaceToMeetAnswersNobody) {
  lose_packets(1, "10.77.0.1");
  const auto ran = run_in(folder_.path(), TwoHosts::on(1, {"lockstep", "doctor", "--wait", "3"}),
                          {{"RANK", "1"},
                           {"WORLD_SIZE", "2"},
                           {"LOCAL_RANK", "0"},
                           {"LOCAL_WORLD_SIZE", "1"},
                           {"MASTER_ADDR", "10.77.0.1"},
                           {"MASTER_PORT", "6060"},
                           {"KUBERNETES_SERVICE_HOST", "10.96.0.1"}});
  EXPECT_EQ(ran.status, kUnsound);
  EXPECT_THAT(fix_of("rendezvous", ran.out), AllOf(HasSubstr("packets are dropped"), Not(HasSubstr("--net=host"))));
}

TEST_F(DoctorOnTwoHosts, ThoroughANameMeansDifferentHosts) {
  const HostsFiles files({"10.77.0.1 boss\n", "10.77.0.1 boss\n10.77.0.7 boss\n"});
  auto second = std::async(std::launch::async, [&] { return rank(1, "boss"); });
  const auto first = rank(0, "boss");
  EXPECT_EQ(first.status, kUnsound);
  EXPECT_EQ(second.get().status, kUnsound);
  EXPECT_THAT(findings_in(first.out), testing::Contains("error names"));
  EXPECT_THAT(first.out, AllOf(HasSubstr("boss resolves to 10.77.0.1 on host"), HasSubstr("10.77.0.7")));
}

TEST_F(DoctorOnTwoHosts, ThoroughAnAddressThatMeansOneself) {
  const auto ran = on_both({}, {over("lo"), Environment{}});
  for (const auto& host : ran) EXPECT_EQ(host.status, kUnsound) << host.out << host.err;
  EXPECT_THAT(ran[0].out, AllOf(HasSubstr("ERROR  addresses"), HasSubstr("LOCKSTEP_SOCKET_IFNAME=lo")));
}

// Rank 0 then listens on all addresses and offers the one on its default route.
TEST_F(DoctorOnTwoHosts, ThoroughALoopbackAddressOnTheHostOfRank0) {
  auto second = std::async(std::launch::async, [&] { return rank(1, "10.77.0.1"); });
  const auto first = rank(0, "127.0.0.1");
  EXPECT_TRUE(first.status.ok()) << first.out << first.err;
  EXPECT_TRUE(second.get().status.ok());
  EXPECT_THAT(findings_in(first.out), testing::Each("warning names"));
}

TEST_F(DoctorOnTwoHosts, ThoroughFilesDiffer) {
  write_file(folder_.path() / "program-0", "one");
  write_file(folder_.path() / "program-1", "two");
  // What each host has under the same name.
  for (const int host : {0, 1}) {
    const auto own = folder_.path() / std::to_string(host);
    std::filesystem::create_directory(own);
    std::filesystem::rename(folder_.path() / ("program-" + std::to_string(host)), own / "program");
  }
  const auto node = [&](int host) {
    return run_in(folder_.path() / std::to_string(host),
                  TwoHosts::on(host, {"lockstep", "run", "--no-prefix", "--nodes", "10.77.0.1,10.77.0.2", "--ctrl_port",
                                      "9988", "lockstep", "doctor", "--same", "program"}));
  };
  auto second = std::async(std::launch::async, [&] { return node(1); });
  const auto first = node(0);
  EXPECT_EQ(first.status, kUnsound);
  EXPECT_EQ(second.get().status, kUnsound);
  EXPECT_THAT(first.out, AllOf(HasSubstr("ERROR  versions"), HasSubstr("program is not the same on hosts")));
}

TEST_F(DoctorOnTwoHosts, ThoroughOneDoesNotCome) {
  const auto first = on(0, {"--wait", "1"});
  EXPECT_EQ(first.status, kUnsound);
  EXPECT_THAT(first.out, AllOf(HasSubstr("ERROR  presence  rank 1"), HasSubstr("1 of 2 ranks did not reach the "
                                                                               "rendezvous")));
  const auto second = on(1, {"--wait", "1"});
  EXPECT_EQ(second.status, kUnsound);
  EXPECT_THAT(second.out, AllOf(HasSubstr("ERROR  rendezvous"), HasSubstr("-> rank 0"), HasSubstr("10.77.0.1:9988")));
}

TEST_F(DoctorOnTwoHosts, TheCableIsOut) {
  ip_on(1, {"addr", "del", "10.77.0.2/24", "dev", TwoHosts::interface(1)});
  const auto ran = run_in(folder_.path(), TwoHosts::on(1, {"lockstep", "doctor", "--wait", "1"}),
                          {{"RANK", "1"},
                           {"WORLD_SIZE", "2"},
                           {"LOCAL_RANK", "0"},
                           {"LOCAL_WORLD_SIZE", "1"},
                           {"MASTER_ADDR", "10.77.0.1"},
                           {"MASTER_PORT", "6060"}});
  EXPECT_EQ(ran.status, kUnsound);
  EXPECT_THAT(ran.out, AllOf(HasSubstr("ERROR  rendezvous"), HasSubstr("unreachable")));
}

}  // namespace
}  // namespace lockstep::test
