// The stores and the job service that launchers of several nodes hold, where LOCKSTEP_ENCRYPT asks for encryption.
#include <lockstep/base/environment.h>
#include <lockstep/base/error.h>
#include <lockstep/base/text.h>
#include <lockstep/base/unique_fd.h>
#include <lockstep/cluster/c10d_store_host.h>
#include <lockstep/cluster/elastic/node_rendezvous.h>
#include <lockstep/cluster/rank_services.h>
#include <lockstep/comm/meet/stores.h>
#include <lockstep/membership/member_session.h>
#include <lockstep/net/tls_contexts.h>
#include <lockstep/store/client.h>
#include <lockstep/world/host_addresses.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "support/certificates.h"

namespace lockstep::test {
namespace {

using namespace std::chrono_literals;
using cluster::elastic::NodeLink;
using cluster::elastic::NodeRendezvous;
using testing::AllOf;
using testing::HasSubstr;

/// c10d's, which a process of its own holds.
TEST(C10dStoreHost, AHugeValueEndsItsConnectionAlone) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "with AddressSanitizer a request for too much memory ends the process, and is no exception";
#endif
  const cluster::C10dStoreHost host;
  const auto join = [&] { return detail::make_tcp_store("127.0.0.1", host.port(), false, 60s); };
  const auto rank = join();
  rank->set("key", std::vector<std::uint8_t>{1, 2, 3});
  const auto stranger = join();
  EXPECT_ANY_THROW({
    stranger->set("huge", std::vector<std::uint8_t>(std::size_t{400} << 20));
    stranger->get("key");
  });
  EXPECT_EQ(rank->get("key"), (std::vector<std::uint8_t>{1, 2, 3}));
  EXPECT_EQ(join()->get("key"), (std::vector<std::uint8_t>{1, 2, 3}));
}

class LaunchersMeet : public testing::Test {
 protected:
  void SetUp() override {
    const auto own = own_addresses();
    const auto outward = std::find_if_not(own.begin(), own.end(), is_loopback_address);
    if (outward == own.end()) GTEST_SKIP() << "this host has no address but loopback";
    address_ = *outward;
  }

  void TearDown() override {
    ::unsetenv("LOCKSTEP_STORE_SECRET");
    ::unsetenv("LOCKSTEP_ALLOW_INSECURE");
  }

  /// The error; empty where the store was opened.
  static std::string open(const std::string& host, bool allow_insecure = false) {
    try {
      cluster::elastic::open_c10d({host, 0, true, allow_insecure});
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  std::string address_;
};

TEST_F(LaunchersMeet, BetweenHostsOnlyWhereThatIsProtectedOrMeant) {
  EXPECT_EQ(open("127.0.0.1"), "");
  EXPECT_EQ(open("localhost"), "");
  for (const auto& host : {address_, std::string("198.51.100.7"), std::string("no-such-host.invalid")}) {
    EXPECT_THAT(open(host), AllOf(HasSubstr(host), HasSubstr("LOCKSTEP_STORE_SECRET"), HasSubstr("LOCKSTEP_ENCRYPT"),
                                  HasSubstr("allow_insecure")));
  }
  EXPECT_EQ(open(address_, true), "");
  ::setenv("LOCKSTEP_ALLOW_INSECURE", "1", 1);
  EXPECT_EQ(open(address_), "");
  ::setenv("LOCKSTEP_ALLOW_INSECURE", "0", 1);
  EXPECT_NE(open(address_), "");
  ::setenv("LOCKSTEP_STORE_SECRET", "open sesame", 1);
  EXPECT_EQ(open(address_), "");
}

class LaunchersEncrypt : public testing::Test {
 protected:
  void SetUp() override {
    const auto own = own_addresses();
    const auto outward = std::find_if_not(own.begin(), own.end(), is_loopback_address);
    if (outward == own.end()) GTEST_SKIP() << "this host has no address but loopback";
    address_ = *outward;
    ::setenv("LOCKSTEP_ENCRYPT", "1", 1);
    ::setenv("LOCKSTEP_CLUSTER_CONFIG", certificates().c_str(), 1);
  }

  void TearDown() override {
    ::unsetenv("LOCKSTEP_ENCRYPT");
    ::unsetenv("LOCKSTEP_CLUSTER_CONFIG");
  }

  static std::string refusal(const auto& call) {
    try {
      call();
    } catch (const Error& error) {
      return error.what();
    }
    return "it was let in";
  }

  std::string address_;
};

NodeLink join(const NodeRendezvous& meeting) {
  return NodeLink(
      {.job = "job", .node = {"a host", 1, false, std::nullopt}, .name = meeting.name, .find = meeting.find});
}

TEST_F(LaunchersEncrypt, TheirOwnService) {
  const auto meeting = cluster::elastic::open_c10d({address_, 0, true});
  auto link = join(meeting);
  EXPECT_EQ(link.ticket(), 1);
  const auto at = meeting.find();
  ::unsetenv("LOCKSTEP_ENCRYPT");
  ::setenv("LOCKSTEP_ALLOW_INSECURE", "1", 1);
  EXPECT_THAT(refusal([&] {
                join(cluster::elastic::open_c10d({address_, at.port, false}));
              }),
              AllOf(HasSubstr(address_), HasSubstr("LOCKSTEP_ENCRYPT")));
  ::unsetenv("LOCKSTEP_ALLOW_INSECURE");
}

TEST_F(LaunchersEncrypt, TheStoreOfTheirRanks) {
  const cluster::LockstepStoreHost host(address_, {address_});
  const auto& place = host.address();
  const auto port =
      static_cast<std::uint16_t>(parse_integer(place.place.substr(place.place.rfind(":") + 1)).value_or(0));
  EXPECT_THAT(refusal([&] { store::Client(address_, port, {place.secret}, std::chrono::steady_clock::now() + 30s); }),
              HasSubstr("encrypts, and this process does not"));
}

TEST_F(LaunchersEncrypt, TheirJobService) {
  const auto losses = std::make_shared<cluster::SharedLosses>();
  const cluster::JobService service(address_, 2, losses);
  EXPECT_TRUE(service.address().encrypted);
  EXPECT_FALSE(cluster::JobService("127.0.0.1", 2, losses).address().encrypted);
}

TEST_F(LaunchersEncrypt, ARankThatDiffersFromTheJobServiceSaysSo) {
  World world;
  world.size = 2;
  world.rendezvous = Rendezvous::tcp;
  const auto enter = [&] { enter_job(world, {.start_timeout = 30s, .rejoins = true}, current_environment()); };
  world.job_service = "tls://" + address_ + ":4711";
  EXPECT_THAT(refusal(enter),
              AllOf(HasSubstr(":4711 encrypts, and this rank does not"), HasSubstr("parallel.encrypt")));
  world.job_service = address_ + ":4711";
  world.tls = net::find_peer_tls(current_environment());
  EXPECT_THAT(refusal(enter), AllOf(HasSubstr(":4711 does not encrypt"), HasSubstr("LOCKSTEP_CLUSTER_CONFIG")));
}

TEST_F(LaunchersEncrypt, WithoutCertificatesTheySayWhatIsMissing) {
  ::unsetenv("LOCKSTEP_CLUSTER_CONFIG");
  EXPECT_THAT(refusal([&] { cluster::elastic::open_c10d({address_, 0, true}); }), HasSubstr("LOCKSTEP_CLUSTER_CONFIG"));
}

}  // namespace
}  // namespace lockstep::test
