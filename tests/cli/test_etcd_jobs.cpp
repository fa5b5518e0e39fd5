// `lockstep run --rdzv_backend etcd` on a real etcd: jobs that outlive each of their launchers, and etcd's own absence.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <fmt/format.h>
#include <lockstep/base/crypto.h>

#include <future>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "cli/elastic_nodes.h"
#include "cli/two_nodes.h"
#include "support/etcd_server.h"
#include "support/raw_server.h"

namespace lockstep::test {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const ExitStatus kWell{0, 0};

/// One etcd for all tests, one job for each. Launchers count as lost after a second.
class EtcdJobs : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (!EtcdServer::obstacle()) etcd_ = std::make_unique<EtcdServer>();
  }
  static void TearDownTestSuite() { etcd_.reset(); }
  void SetUp() override {
    if (const auto why = EtcdServer::obstacle()) GTEST_SKIP() << *why;
  }

  static Words flags(const std::string& nodes, const std::string& conf = "",
                     const std::string& endpoints = etcd_->endpoints()) {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    return {"--nnodes=" + nodes, "--rdzv_backend=etcd", "--rdzv_endpoint=" + endpoints,
            std::string("--rdzv_id=") + test->name(),
            "--rdzv_conf=keep_alive_interval=0.5,last_call_timeout=20" + conf};
  }

  /// Ranks that say how many they are, and end when `finish` is called.
  Agent start_waiting(const Words& words) const {
    const std::string script = "echo world $WORLD_SIZE; until [ -e \"$0\" ]; do sleep 0.05; done";
    return Agent::of_program(words, {"sh", "-c", script, finish_file()});
  }
  void finish() const { write_file(finish_file(), ""); }

  void expect_other_goes_on(bool service_is_killed) const;

  /// What etcd has under the keys of this test's job, with the given beginning of what follows its name.
  static nlohmann::json find_keys(const std::string& beginning);
  /// Asks until `condition` holds of it, for a minute.
  template <typename Condition>
  static bool when_keys(const std::string& beginning, Condition condition) {
    const auto limit = std::chrono::steady_clock::now() + 60s;
    while (!condition(find_keys(beginning))) {
      if (std::chrono::steady_clock::now() > limit) return false;
      std::this_thread::sleep_for(50ms);
    }
    return true;
  }

  std::string finish_file() const { return (folder_.path() / "finish").string(); }

  const TemporaryFolder folder_;
  static std::unique_ptr<EtcdServer> etcd_;
};

std::unique_ptr<EtcdServer> EtcdJobs::etcd_;

nlohmann::json EtcdJobs::find_keys(const std::string& beginning) {
  const auto* test = testing::UnitTest::GetInstance()->current_test_info();
  const std::string key = fmt::format("/lockstep/{}/{}", test->name(), beginning);
  std::string end = key;
  ++end.back();
  const std::string body = nlohmann::json{{"key", to_base64(key)}, {"range_end", to_base64(end)}}.dump();
  const auto connection = connect_to(etcd_->port());
  write_all(connection.get(), fmt::format("POST /v3/kv/range HTTP/1.1\r\nHost: etcd\r\nConnection: close\r\n"
                                          "Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{}",
                                          body.size(), body));
  std::string answer;
  for (std::string piece = read_some(connection.get()); !piece.empty(); piece = read_some(connection.get())) {
    answer += piece;
  }
  const auto object = answer.find('{');
  const auto parsed =
      object == std::string::npos
          ? nlohmann::json()
          : nlohmann::json::parse(answer.substr(object, answer.rfind('}') - object + 1), nullptr, false);
  return parsed.is_object() ? parsed.value("kvs", nlohmann::json::array()) : nlohmann::json::array();
}

TEST_F(EtcdJobs, RanksOfTwoNodesTrain) {
  Agent first = Agent::of_program(flags("2"), {LOCKSTEP_EXAMPLES "/toy_ddp"});
  Agent second = Agent::of_program(flags("2"), {LOCKSTEP_EXAMPLES "/toy_ddp"});
  EXPECT_EQ(first.wait(), kWell) << first.said();
  EXPECT_EQ(second.wait(), kWell) << second.said();
  EXPECT_THAT(first.said() + second.said(), HasSubstr("[rank 0] replicas on 2 rank(s) are equal\n"));
}

void EtcdJobs::expect_other_goes_on(bool service_is_killed) const {
  Agent first = start_waiting(flags("1:2"));
  // Whoever comes first runs the service; the other one comes once it does.
  ASSERT_TRUE(when_keys("state", [](const nlohmann::json& keys) { return !keys.empty(); }));
  Agent second = start_waiting(flags("1:2"));
  ASSERT_TRUE(first.says("world 2\n")) << first.said();
  ASSERT_TRUE(second.says("world 2\n")) << second.said();
  Agent& victim = service_is_killed ? first : second;
  Agent& other = service_is_killed ? second : first;
  victim.kill(SIGKILL);
  EXPECT_EQ(victim.wait(), (ExitStatus{0, SIGKILL}));
  ASSERT_TRUE(other.says("world 1\n")) << other.said();
  finish();
  EXPECT_EQ(other.wait(), kWell) << other.said();
  EXPECT_THAT(other.said(), HasSubstr("was lost: no heartbeat for 2.5 s"));
}

TEST_F(EtcdJobs, TheOtherGoesOnWhenTheOneWithTheServiceIsKilled) { expect_other_goes_on(true); }

TEST_F(EtcdJobs, ThoroughTheOneWithTheServiceGoesOnWhenTheOtherIsKilled) { expect_other_goes_on(false); }

TEST_F(EtcdJobs, AnEtcdThatIsStartedAgainEndsNoRound) {
  Agent first = start_waiting(flags("2"));
  Agent second = start_waiting(flags("2"));
  ASSERT_TRUE(first.says("world 2\n")) << first.said();
  ASSERT_TRUE(second.says("world 2\n")) << second.said();
  etcd_->kill();
  for (Agent* agent : {&first, &second}) ASSERT_TRUE(agent->says("waiting for etcd")) << agent->said();
  std::this_thread::sleep_for(3s);  // no order, but what is tested: longer than a launcher may be silent, 2.5 s
  etcd_->start();
  etcd_->wait_until_ready();
  // One of them runs the service again; then somebody lost would be found within 2.5 s.
  ASSERT_TRUE(when_keys("service", [](const nlohmann::json& keys) { return keys.size() == 1; }));
  std::this_thread::sleep_for(4s);
  finish();
  for (Agent* agent : {&first, &second}) {
    EXPECT_EQ(agent->wait(), kWell) << agent->said();
    EXPECT_THAT(agent->said(), AllOf(HasSubstr("waiting for etcd"), Not(HasSubstr("round 2"))));
  }
}

TEST_F(EtcdJobs, SaysWhenThereIsNoEtcd) {
  const std::string nobody = "127.0.0.1:" + std::to_string(RawServer([](int) {}).port());
  Agent agent = start_waiting(flags("2", ",read_timeout=1", nobody));
  EXPECT_EQ(agent.wait(), (ExitStatus{1, 0}));
  EXPECT_THAT(agent.said(), AllOf(HasSubstr("no server of etcd answered within 1."), HasSubstr(nobody),
                                  HasSubstr("Connection refused"), HasSubstr("--rdzv_endpoint")));
}

TEST_F(EtcdJobs, SaysWhatTheFlagsMustBe) {
  const auto said = [&](const std::string& conf) {
    Agent agent = start_waiting(flags("2", conf));
    EXPECT_EQ(agent.wait(), (ExitStatus{2, 0}));
    return agent.said();
  };
  EXPECT_THAT(said(",lease=never"), HasSubstr("lease=never"));
  EXPECT_THAT(said(",is_host=1"), HasSubstr("no node holds an etcd"));
  Agent old = start_waiting({"--nnodes=2", "--rdzv_backend=etcd-v2", "--rdzv_endpoint=127.0.0.1"});
  EXPECT_EQ(old.wait(), (ExitStatus{2, 0}));
  EXPECT_THAT(old.said(), AllOf(HasSubstr("etcd-v2"), HasSubstr("--rdzv_backend etcd")));
  Agent nameless = start_waiting({"--nnodes=2", "--rdzv_backend=etcd", "--rdzv_endpoint=127.0.0.1"});
  EXPECT_EQ(nameless.wait(), (ExitStatus{2, 0}));
  EXPECT_THAT(nameless.said(), HasSubstr("needs --rdzv_id"));
}

TEST_F(EtcdJobs, ThoroughPythonRanksOnTwoHosts) {
  const TwoHosts hosts;
  if (!hosts.made()) GTEST_SKIP() << TwoHosts::kObstacle;
  EtcdServer::Options options;
  options.host = TwoHosts::address(0);
  options.prefix = TwoHosts::on(0, {});
  const EtcdServer etcd(options);
  Words words = flags("2", "", etcd.endpoints());
  words.insert(words.begin(), {"lockstep", "run"});
  words.insert(words.end(), {LOCKSTEP_PYTHON, LOCKSTEP_SOURCE_DIR "/tests/cli/torch_ranks.py"});
  const auto host = [&](int index) {
    return run_in(folder_.path(), TwoHosts::on(index, words), {{"GLOO_SOCKET_IFNAME", TwoHosts::interface(index)}});
  };
  auto second = std::async(std::launch::async, [&] { return host(1); });
  const auto first = host(0);
  ASSERT_TRUE(first.status.ok()) << first.err;
  const auto other = second.get();
  ASSERT_TRUE(other.status.ok()) << other.err;
  EXPECT_THAT(first.out + other.out,
              AllOf(HasSubstr("[rank 0] sum 3 mean gradient 1.5\n"), HasSubstr("[rank 1] sum 3 mean gradient 1.5\n")));
}

}  // namespace
}  // namespace lockstep::test
