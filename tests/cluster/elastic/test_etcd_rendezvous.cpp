// The service of launchers on a real etcd: who runs it, who takes over, and servers of etcd that come and go.
#include <lockstep/base/error.h>
#include <lockstep/cluster/elastic/etcd_rendezvous.h>
#include <lockstep/cluster/etcd/client.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>
#include <memory>
#include <thread>

#include "support/etcd_server.h"
#include "support/raw_server.h"

namespace lockstep::cluster::elastic {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;

constexpr auto kLong = 120s;  // only a hang reaches it

etcd::HttpServer on_this_host(std::uint16_t port) { return {"127.0.0.1", port}; }

EtcdOptions options_for(const std::vector<etcd::HttpServer>& servers) {
  EtcdOptions options;
  options.address.servers = servers;
  options.job = testing::UnitTest::GetInstance()->current_test_info()->name();
  return options;
}

std::vector<etcd::HttpServer> servers_of(const test::EtcdServer& etcd, int members = 1) {
  std::vector<etcd::HttpServer> servers;
  for (int member = 0; member < members; ++member) servers.push_back(on_this_host(etcd.port(member)));
  return servers;
}

/// A launcher without ranks, of a job of two nodes.
class Launcher {
 public:
  explicit Launcher(const EtcdOptions& options) : meeting_(open_etcd(options, "127.0.0.1", {"127.0.0.1"}, 2s)) {
    Policy policy;
    policy.min_nodes = 1;
    policy.max_nodes = 2;
    policy.last_call = 60s;
    policy.heartbeat_limit = 3s;
    link_.emplace(NodeLinkOptions{.job = options.job,
                                  .node = {"a host", 1, false, std::nullopt},
                                  .policy = policy,
                                  .name = meeting_.name,
                                  .find = meeting_.find,
                                  .moves = true,
                                  .heartbeat = 500ms,
                                  .limit = 60s});
  }

  NodeLink& link() { return *link_; }
  bool runs_the_service() const { return meeting_.users() > 0; }

  /// Until the launcher sees such a view.
  bool sees(const std::function<bool(const JobView&)>& condition) {
    for (const auto limit = std::chrono::steady_clock::now() + kLong; !condition(link_->view());) {
      if (std::chrono::steady_clock::now() > limit) return false;
      std::this_thread::sleep_for(10ms);
    }
    return true;
  }
  bool sees_round(int round, int nodes) {
    return sees([&](const JobView& view) {
      return view.job.phase == Phase::running && view.job.round == round && view.job.nodes == nodes;
    });
  }

 private:
  NodeRendezvous meeting_;
  std::optional<NodeLink> link_;
};

class EtcdRendezvous : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (!test::EtcdServer::obstacle()) etcd_ = std::make_unique<test::EtcdServer>();
  }
  static void TearDownTestSuite() { etcd_.reset(); }
  void SetUp() override {
    if (const auto why = test::EtcdServer::obstacle()) GTEST_SKIP() << *why;
  }
  static EtcdOptions options() { return options_for(servers_of(*etcd_)); }

  static std::unique_ptr<test::EtcdServer> etcd_;
};

std::unique_ptr<test::EtcdServer> EtcdRendezvous::etcd_;

TEST_F(EtcdRendezvous, AnotherLauncherGoesOnWithTheState) {
  auto first = std::make_unique<Launcher>(options());
  Launcher second(options());
  ASSERT_TRUE(first->sees_round(1, 2));
  ASSERT_TRUE(second.sees_round(1, 2));
  EXPECT_TRUE(first->runs_the_service());
  EXPECT_FALSE(second.runs_the_service());
  EXPECT_EQ(second.link().ticket(), 2);
  for (auto* launcher : {first.get(), &second}) launcher->link().report({.stage = Stage::running, .round = 1});
  first.reset();
  ASSERT_TRUE(second.sees([](const JobView& view) { return view.job.phase == Phase::gathering; }));
  EXPECT_THAT(second.link().view().job.why, HasSubstr("a host was lost"));
  EXPECT_TRUE(second.runs_the_service());
  second.link().report({.round = 1});
  ASSERT_TRUE(second.sees_round(2, 1));
  EXPECT_EQ(second.link().ticket(), 2);
}

TEST_F(EtcdRendezvous, WhoHasLostItsTermChangesNothing) {
  Launcher first(options());
  Launcher second(options());
  ASSERT_TRUE(first.sees_round(1, 2));
  // As if its lease had expired while it was suspended.
  etcd::Entry(options().address, "/lockstep/" + options().job + "/service").remove(60s);
  first.link().report({.stage = Stage::running, .round = 1});
  second.link().report({.stage = Stage::running, .round = 1});
  // One of them runs it again, and both reports have arrived there.
  first.link().report({.stage = Stage::left, .round = 1, .note = "ended by SIGTERM"});
  first.link().await_goodbye(kLong);
  ASSERT_TRUE(second.sees([](const JobView& view) { return view.job.phase == Phase::gathering; }));
  EXPECT_EQ(second.link().view().job.why, "a host left (ended by SIGTERM)");
}

TEST_F(EtcdRendezvous, SaysWhenNobodyAnswers) {
  const std::uint16_t unused = test::RawServer([](int) {}).port();
  auto options = options_for({on_this_host(unused), {"no-such-host.invalid", 2379}});
  options.timeout = 2s;
  try {
    find_server(options);
    FAIL() << "found one";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::timeout);
    EXPECT_THAT(error.message(), AllOf(HasSubstr("no server of etcd answered within "),
                                       HasSubstr(fmt::format("127.0.0.1:{}: Connection refused", unused)),
                                       HasSubstr("no-such-host.invalid:2379: the name 'no-such-host.invalid'"),
                                       HasSubstr("--rdzv_endpoint")));
  }
}

TEST_F(EtcdRendezvous, TakesTheNextServerWhenOneDoesNotAnswer) {
  const std::uint16_t unused = test::RawServer([](int) {}).port();
  const test::RawServer rude([](int) {});
  EXPECT_EQ(
      find_server(options_for({on_this_host(unused), on_this_host(rude.port()), on_this_host(etcd_->port())})).port,
      etcd_->port());
}

/// Hands on what is said between a launcher and etcd, and closes the connection in place of each `nth` answer.
void lose_answers(int connection, std::uint16_t port, int nth, std::atomic<int>& answers) {
  const UniqueFd server = test::connect_to(port);
  bool asked = false;
  while (true) {
    pollfd ready[] = {{connection, POLLIN, 0}, {server.get(), POLLIN, 0}};
    ::poll(ready, 2, -1);
    if (ready[0].revents != 0) {
      const std::string request = test::read_some(connection);
      if (request.empty() || !test::write_all(server.get(), request)) return;
      asked = true;
    }
    if (ready[1].revents != 0) {
      const std::string answer = test::read_some(server.get());
      if (std::exchange(asked, false) && ++answers % nth == 0) return;
      if (answer.empty() || !test::write_all(connection, answer)) return;
    }
  }
}

TEST_F(EtcdRendezvous, GoesOnThoughAnswersAreLost) {
  std::atomic<int> answers = 0;
  const test::RawServer lossy([&](int connection) { lose_answers(connection, etcd_->port(), 3, answers); });
  const auto options = options_for({on_this_host(lossy.port())});
  Launcher first(options);
  Launcher second(options);
  ASSERT_TRUE(first.sees_round(1, 2));
  ASSERT_TRUE(second.sees_round(1, 2));
  first.link().report({.stage = Stage::running, .round = 1});
  second.link().report({.round = 1, .failed = true});
  ASSERT_TRUE(first.sees([](const JobView& view) { return view.job.phase == Phase::gathering; }));
  EXPECT_GT(answers.load(), 6);
}

TEST_F(EtcdRendezvous, NobodyIsLostWhenEtcdIsStartedAgain) {
  test::EtcdServer etcd;
  const auto options = options_for(servers_of(etcd));
  Launcher first(options);
  Launcher second(options);
  ASSERT_TRUE(first.sees_round(1, 2));
  for (auto* launcher : {&first, &second}) launcher->link().report({.stage = Stage::running, .round = 1});
  etcd.kill();
  std::this_thread::sleep_for(5s);  // no order, but what is tested: longer than a launcher may be silent
  etcd.start();
  etcd.wait_until_ready();
  second.link().report({.stage = Stage::ended, .round = 1});
  first.link().report({.stage = Stage::ended, .round = 1});
  ASSERT_TRUE(first.sees([](const JobView& view) { return view.job.phase == Phase::closed; }));
  EXPECT_EQ(first.link().view().job.why, "all ranks ended well");
  EXPECT_EQ(first.link().view().job.round, 1);
}

TEST_F(EtcdRendezvous, SurvivesTheLossOfAMember) {
  test::EtcdServer::Options three;
  three.members = 3;
  test::EtcdServer etcd(three);
  const auto options = options_for(servers_of(etcd, 3));
  Launcher first(options);
  Launcher second(options);
  ASSERT_TRUE(first.sees_round(1, 2));
  etcd.kill(0);
  second.link().report({.stage = Stage::left, .round = 1, .note = "ended by SIGTERM"});
  second.link().await_goodbye(kLong);
  ASSERT_TRUE(first.sees([](const JobView& view) { return view.job.phase == Phase::gathering; }));

  // Without a majority etcd answers nothing, and says so.
  etcd.kill(1);
  auto impatient = options;
  impatient.timeout = 1s;
  EXPECT_THROW(find_server(impatient), Error);
}

}  // namespace
}  // namespace lockstep::cluster::elastic
