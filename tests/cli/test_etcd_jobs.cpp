// `lockstep run --rdzv_backend etcd` on a real etcd: jobs that outlive each of their launchers, and etcd's own absence.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <future>

#include "cli/read_until.h"
#include "cli/two_nodes.h"
#include "support/etcd_server.h"
#include "support/raw_server.h"

namespace lockstep::test {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

/// What each rank does: say how many there are, and wait for a file named "finish".
const Words kWaitingRank = {"sh", "-c", "echo world $WORLD_SIZE; until [ -e finish ]; do sleep 0.05; done"};

/// One etcd for all tests, one job for each.
class EtcdJobs : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (!EtcdServer::obstacle()) etcd_ = std::make_unique<EtcdServer>();
  }
  static void TearDownTestSuite() { etcd_.reset(); }
  void SetUp() override {
    if (const auto why = EtcdServer::obstacle()) GTEST_SKIP() << *why;
  }

  /// `lockstep run` as one of the job's nodes. A node counts as lost after a second.
  Words node(const std::string& nodes, const Words& program, const std::string& conf = "") const {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    Words words = {
        "lockstep",       "run",        "--nnodes",        nodes,
        "--rdzv_backend", "etcd",       "--rdzv_endpoint", etcd_->endpoints(),
        "--rdzv_id",      test->name(), "--rdzv_conf",     "keep_alive_interval=0.2,last_call_timeout=20" + conf};
    words.insert(words.end(), program.begin(), program.end());
    return words;
  }

  Child start(const Words& words) const {
    ChildOptions options;
    options.arguments = words;
    options.environment = environment_of_scripts();
    options.working_directory = folder_.path();
    options.out = options.err = ChildStream::pipe;
    return Child(options);
  }

  void finish() const { write_file(folder_.path() / "finish", ""); }

  void expect_other_goes_on(int killed);

  const TemporaryFolder folder_;
  static std::unique_ptr<EtcdServer> etcd_;
};

std::unique_ptr<EtcdServer> EtcdJobs::etcd_;

TEST_F(EtcdJobs, RanksOfTwoNodesTrain) {
  const Words words = node("2", {LOCKSTEP_EXAMPLES "/toy_ddp"});
  const auto ran = on_two_nodes(folder_.path(), words, {});
  for (const auto& node : ran) ASSERT_TRUE(node.status.ok()) << node.err;
  EXPECT_THAT(ran[0].out + ran[1].out, HasSubstr("[rank 0] replicas on 2 rank(s) are equal\n"));
}

/// Of two launchers, the first of which coordinates, one is killed.
void EtcdJobs::expect_other_goes_on(int killed) {
  std::vector<Child> launchers;
  launchers.push_back(start(node("1:2", kWaitingRank)));
  std::this_thread::sleep_for(500ms);
  launchers.push_back(start(node("1:2", kWaitingRank)));
  Child& victim = launchers[static_cast<std::size_t>(killed)];
  Child& other = launchers[static_cast<std::size_t>(1 - killed)];
  ASSERT_THAT(read_until(victim.out(), "world 2\n"), HasSubstr("world 2\n"));
  ASSERT_THAT(read_until(other.out(), "world 2\n"), HasSubstr("world 2\n"));
  ASSERT_EQ(::kill(victim.pid(), SIGKILL), 0);
  EXPECT_THAT(read_until(other.out(), "world 1\n"), HasSubstr("world 1\n"));
  finish();
  EXPECT_EQ(other.wait_for(60s), (ExitStatus{0, 0}));
}

TEST_F(EtcdJobs, TheOtherGoesOnWhenTheCoordinatorIsKilled) { expect_other_goes_on(0); }

TEST_F(EtcdJobs, TheCoordinatorGoesOnWhenTheOtherIsKilled) { expect_other_goes_on(1); }

TEST_F(EtcdJobs, AnEtcdThatIsStartedAgainIsNotNoticed) {
  Child first = start(node("2", kWaitingRank, ",read_timeout=60"));
  Child second = start(node("2", kWaitingRank, ",read_timeout=60"));
  ASSERT_THAT(read_until(first.out(), "world 2\n"), HasSubstr("world 2\n"));
  ASSERT_THAT(read_until(second.out(), "world 2\n"), HasSubstr("world 2\n"));
  etcd_->kill();
  std::this_thread::sleep_for(3s);  // longer than a node may be silent
  etcd_->start();
  etcd_->wait_until_ready();
  std::this_thread::sleep_for(1500ms);  // time to find nodes lost, for whoever would
  finish();
  for (Child* node : {&first, &second}) {
    EXPECT_EQ(node->wait_for(60s), (ExitStatus{0, 0}));
    EXPECT_EQ(read_until(node->out(), "world"), "") << "a second round";
  }
}

TEST_F(EtcdJobs, SaysWhenThereIsNoEtcd) {
  Words words = node("2", kWaitingRank, ",read_timeout=1");
  const std::string nobody = "127.0.0.1:" + std::to_string(RawServer([](int) {}).port());
  *std::find(words.begin(), words.end(), etcd_->endpoints()) = nobody;
  const auto ran = run_in(folder_.path(), words);
  EXPECT_EQ(ran.status, (ExitStatus{1, 0}));
  EXPECT_THAT(ran.err, AllOf(HasSubstr("no server of etcd answered within 1.0 s"), HasSubstr(nobody),
                             HasSubstr("Connection refused"), HasSubstr("--rdzv_endpoint")));
}

TEST_F(EtcdJobs, SaysWhatTheFlagsMustBe) {
  Words words = node("2", kWaitingRank);
  words[5] = "etcd-v2";
  auto ran = run_in(folder_.path(), words);
  EXPECT_EQ(ran.status, (ExitStatus{2, 0}));
  EXPECT_THAT(ran.err, AllOf(HasSubstr("etcd-v2"), HasSubstr("--rdzv_backend etcd")));

  ran = run_in(folder_.path(), {"lockstep", "run", "--nnodes", "2", "--rdzv_backend", "etcd", "true"});
  EXPECT_EQ(ran.status, (ExitStatus{2, 0}));
  EXPECT_THAT(ran.err, HasSubstr("needs --rdzv_endpoint"));
}

TEST_F(EtcdJobs, PythonRanksOnTwoHosts) {
  const TwoHosts hosts;
  if (!hosts.made()) GTEST_SKIP() << TwoHosts::kObstacle;
  EtcdServer::Options options;
  options.host = TwoHosts::address(0);
  options.prefix = TwoHosts::on(0, {});
  EtcdServer etcd(options);
  Words words = node("2", {LOCKSTEP_PYTHON, LOCKSTEP_SOURCE_DIR "/tests/cli/torch_ranks.py"});
  *std::find(words.begin(), words.end(), etcd_->endpoints()) = etcd.endpoints();
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
