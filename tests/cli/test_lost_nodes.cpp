// `lockstep run` on several nodes: a lost rank, and a whole lost node, are replaced in the same round, also with
// encryption between the nodes.
#include "cli/elastic_nodes.h"
#include "cli/replaced_ranks.h"
#include "cli/supervised_job.h"
#include "cli/two_nodes.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <optional>
#include <thread>
#include <utility>

namespace lockstep::test {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kSlowFault = "LOCKSTEP_FAULT=rank=0,step=1,action=slow,ms=200";
/// Long enough, with that, to be struck in the middle.
const Words kLongRun = keys_with({"train.epochs=40"});

Words joined(const std::vector<Words>& parts) {
  Words words;
  for (const auto& part : parts) words.insert(words.end(), part.begin(), part.end());
  return words;
}

/// A launcher of two ranks on one of several nodes. Its ranks are started one by one, so that their environments can be
/// read.
Words node_of(const Words& variables, const Words& flags, const Words& program) {
  const Words run = {LOCKSTEP_BINARY, "run", "--nproc-per-node", "2", "--start-method", "spawn"};
  return joined({{"env"}, variables, run, flags, program});
}

TEST(ReplacementOnNodes, OfOneRank) {
  const Workbench bench;
  const Rendezvous rendezvous;
  const auto words = node_of({"LOCKSTEP_FAULT=rank=3,step=4,action=kill"},
                             joined({{"--nnodes", "2"}, rendezvous.flags()}), bench.train(kRun));
  Agent a = Agent::of_command(words);
  Agent b = Agent::of_command(words);
  EXPECT_TRUE(a.wait().ok()) << a.said();
  EXPECT_TRUE(b.wait().ok()) << b.said();
  EXPECT_THAT(a.said() + b.said(), HasSubstr(kReplaced));
  EXPECT_THAT(a.said() + b.said(), Not(HasSubstr("restarted")));
  EXPECT_EQ(hash_in(bench.work_dir()), hash_of_peace(4, kRun)) << a.said() << b.said();
}

TEST(ReplacementOnNodes, ThoroughOfOneThatIsStoppedOnTheSecondNode) {
  const Workbench bench;
  const Rendezvous rendezvous;
  const auto words = node_of({kSlowFault, "LOCKSTEP_NODE_TIMEOUT_S=3"}, joined({{"--nnodes", "2"}, rendezvous.flags()}),
                             bench.train(kLongRun));
  Agent a = Agent::of_command(words);
  Agent b = Agent::of_command(words);
  ASSERT_TRUE(wait_until([&] { return has_made_steps(bench, 3); })) << a.said() << b.said();
  auto ranks = ranks_below(a.pid());
  ranks.merge(ranks_below(b.pid()));
  ASSERT_EQ(ranks.size(), 4U);
  ::kill(ranks.at(3), SIGSTOP);
  EXPECT_TRUE(a.wait().ok()) << a.said();
  EXPECT_TRUE(b.wait().ok()) << b.said();
  EXPECT_THAT(a.said() + b.said(), HasSubstr(kReplaced));
  EXPECT_EQ(hash_in(bench.work_dir()), hash_of_peace(4, kLongRun)) << a.said() << b.said();
}

TEST(ReplacementOnNodes, ThoroughOfOneThatHangsOnTheSecondNode) {
  const Workbench bench;
  const Rendezvous rendezvous;
  const auto words =
      node_of({"LOCKSTEP_FAULT=rank=3,step=4,action=loop", "LOCKSTEP_TIMEOUT_S=4", "LOCKSTEP_HANG_TIMEOUT_S=3"},
              joined({{"--nnodes", "2"}, rendezvous.flags()}), bench.train(kRun));
  Agent a = Agent::of_command(words);
  Agent b = Agent::of_command(words);
  EXPECT_TRUE(a.wait().ok()) << a.said();
  EXPECT_TRUE(b.wait().ok()) << b.said();
  EXPECT_THAT(a.said() + b.said(), HasSubstr(kReplaced));
  EXPECT_EQ(hash_in(bench.work_dir()), hash_of_peace(4, kRun)) << a.said() << b.said();
}

/// A launcher and its ranks are gone at once, as with their machine.
void lose_node(const Agent& node) {
  const auto ranks = ranks_below(node.pid());
  ASSERT_EQ(ranks.size(), 2U);
  ::kill(node.pid(), SIGKILL);
  for (const auto& [rank, pid] : ranks) ::kill(pid, SIGKILL);
}

/// The ranks of `first`, and nothing but memory, carried the job over a loss.
void expect_carried_on(Agent& first, Agent& taker, const std::map<int, pid_t>& before, const Workbench& bench) {
  ASSERT_EQ(before.size(), 2U) << first.said();
  ASSERT_TRUE(taker.says("takes its place, and the other ranks keep running")) << taker.said() << first.said();
  EXPECT_EQ(ranks_below(first.pid()), before) << first.said();
  EXPECT_TRUE(first.wait().ok()) << first.said();
  EXPECT_TRUE(taker.wait().ok()) << taker.said();
  EXPECT_THAT(first.said() + taker.said(), Not(HasSubstr("round 2")));
  EXPECT_THAT(log_of(bench, before.begin()->first), HasSubstr("going on after step"));
  EXPECT_THAT(log_of(bench, before.begin()->first), Not(HasSubstr("the newest checkpoint is used instead")));
  EXPECT_EQ(hash_in(bench.work_dir()), hash_of_peace(4, kLongRun)) << first.said() << taker.said();
}

struct LostNodeCase {
  const char* name;
  Words flags;
  bool comes_later = false;  ///< the node that takes its place
};

class ReplacementOfNodes : public testing::TestWithParam<LostNodeCase> {};

TEST_P(ReplacementOfNodes, AnotherTakesThePlaceOfALostOne) {
  const auto& [name, flags, comes_later] = GetParam();
  const Workbench bench;
  const Rendezvous rendezvous("last_call_timeout=60");
  const auto words = node_of({kSlowFault}, joined({flags, rendezvous.flags()}), bench.train(kLongRun));
  Agent one = Agent::of_command(words);
  Agent two = Agent::of_command(words);
  ASSERT_TRUE(wait_until([&] { return has_made_steps(bench, 3); })) << one.said() << two.said();
  const bool one_is_first = ranks_below(one.pid()).contains(0);
  Agent& first = one_is_first ? one : two;
  std::optional<Agent> taker;
  if (!comes_later) {
    taker.emplace(Agent::of_command(words));
    ASSERT_TRUE(taker->says("this node is a spare")) << taker->said();
  }
  const auto before = ranks_below(first.pid());
  lose_node(one_is_first ? two : one);
  if (comes_later) taker.emplace(Agent::of_command(words));
  expect_carried_on(first, *taker, before, bench);
}

INSTANTIATE_TEST_SUITE_P(Ways, ReplacementOfNodes,
                         testing::Values(LostNodeCase{"ASpare", {"--nnodes", "1:2", "--max-restarts", "1"}}),
                         [](const auto& one) { return one.param.name; });
INSTANTIATE_TEST_SUITE_P(Thorough, ReplacementOfNodes,
                         testing::Values(LostNodeCase{"OneThatComes", {"--nnodes", "2"}, true}),
                         [](const auto& one) { return one.param.name; });

/// Two hosts whose launchers meet on the first.
class TwoHostsReplace : public testing::Test {
 protected:
  void SetUp() override {
    if (!hosts_.made()) GTEST_SKIP() << TwoHosts::kObstacle;
  }

  Agent on(int host, const Words& variables, const Words& flags, const Words& keys) const {
    const Words endpoint = {"--rdzv_backend=c10d", "--rdzv_endpoint=" + TwoHosts::address(0) + ":29400"};
    return Agent::of_command(TwoHosts::on(host, node_of(variables, joined({endpoint, flags}), bench_.train(keys))));
  }

  /// Both launchers, with certificates of one authority.
  std::pair<Agent, Agent> encrypted(const Words& variables) const {
    const auto made = lockstep({"certs", "init", bench_.path() / "certs", "--nodes", "a,b"});
    EXPECT_TRUE(made.status.ok()) << made.err;
    const auto start = [&](int host) {
      const auto config = bench_.path() / "certs" / (host == 0 ? "a" : "b") / "config.json";
      const Words encrypt = {"LOCKSTEP_ENCRYPT=1", "LOCKSTEP_CLUSTER_CONFIG=" + config.string()};
      return on(host, joined({variables, encrypt}), {"--nnodes", "2"}, kRun);
    };
    return {start(0), start(1)};
  }

  const TwoHosts hosts_;
  const Workbench bench_;
};

TEST_F(TwoHostsReplace, ThoroughEncryptionChangesNoBit) {
  auto [first, second] = encrypted({});
  EXPECT_TRUE(first.wait().ok()) << first.said();
  EXPECT_TRUE(second.wait().ok()) << second.said();
  EXPECT_EQ(hash_in(bench_.work_dir()), hash_of_peace(4, kRun)) << first.said() << second.said();
}

TEST_F(TwoHostsReplace, OneRankOfAnEncryptedJob) {
  auto [first, second] = encrypted({"LOCKSTEP_FAULT=rank=3,step=4,action=kill"});
  EXPECT_TRUE(first.wait().ok()) << first.said();
  EXPECT_TRUE(second.wait().ok()) << second.said();
  EXPECT_THAT(second.said(), HasSubstr(kReplaced));
  EXPECT_THAT(first.said() + second.said(), Not(HasSubstr("restarted")));
  EXPECT_EQ(hash_in(bench_.work_dir()), hash_of_peace(4, kRun)) << first.said() << second.said();
}

TEST_F(TwoHostsReplace, ThoroughANodeWhoseNetworkGoes) {
  const Words variables = {kSlowFault, "LOCKSTEP_NODE_TIMEOUT_S=4", "LOCKSTEP_HOST_TIMEOUT_S=4"};
  const Words flags = {"--nnodes", "1:2", "--rdzv_conf=last_call_timeout=60"};
  Agent first = on(0, variables, flags, kLongRun);
  Agent second = on(1, variables, flags, kLongRun);
  ASSERT_TRUE(wait_until([&] { return has_made_steps(bench_, 3); })) << first.said() << second.said();
  Agent spare = on(0, variables, flags, kLongRun);
  ASSERT_TRUE(spare.says("this node is a spare")) << spare.said();
  const auto before = ranks_below(first.pid());
  ASSERT_TRUE(TwoHosts::unplug());
  expect_carried_on(first, spare, before, bench_);
}

TEST_F(TwoHostsReplace, ANetworkThatComesBackLosesNobody) {
  const Words flags = {"--nnodes", "2", "--rdzv_conf=read_timeout=40,keep_alive_interval=0.5"};
  Agent first = on(0, {kSlowFault}, flags, kLongRun);
  Agent second = on(1, {kSlowFault}, flags, kLongRun);
  ASSERT_TRUE(wait_until([&] { return has_made_steps(bench_, 3); })) << first.said() << second.said();
  const auto before = std::pair(ranks_below(first.pid()), ranks_below(second.pid()));
  ASSERT_TRUE(TwoHosts::unplug());
  std::this_thread::sleep_for(5s);  // twice what a launcher may be silent
  ASSERT_TRUE(TwoHosts::plug_in());
  ASSERT_TRUE(wait_until([&] { return has_made_steps(bench_, 25); })) << first.said() << second.said();
  EXPECT_EQ(std::pair(ranks_below(first.pid()), ranks_below(second.pid())), before);
  EXPECT_TRUE(first.wait().ok()) << first.said();
  EXPECT_TRUE(second.wait().ok()) << second.said();
  EXPECT_THAT(first.said() + second.said(), Not(HasSubstr("round 2")));
  EXPECT_EQ(hash_in(bench_.work_dir()), hash_of_peace(4, kLongRun)) << first.said() << second.said();
}

}  // namespace
}  // namespace lockstep::test
