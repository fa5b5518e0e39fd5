// The loss of launchers, also of the one that runs the job's service: with etcd the job outlives each of them; without
// it the job ends, and the same command goes on from the newest checkpoint.
#include "cli/elastic_nodes.h"
#include "cli/replaced_ranks.h"
#include "cli/supervised_job.h"
#include "support/etcd_server.h"
#include "support/port.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <random>
#include <thread>
#include <vector>

namespace lockstep::test {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kSlowRank0 = "LOCKSTEP_FAULT=rank=0,step=1,action=slow,ms=200";
const Words kTraining = keys_with({"train.epochs=40", "checkpoint.every_steps=2"});

/// The launchers of one job, in the order of their start.
class LostLaunchers : public testing::Test {
 protected:
  /// False where there can be none.
  bool start_etcd(int members = 1) {
    if (EtcdServer::obstacle()) return false;
    EtcdServer::Options options;
    options.members = members;
    etcd_.emplace(options);
    return true;
  }

  Words rendezvous() const {
    const std::string settings = "--rdzv_conf=last_call_timeout=60,keep_alive_interval=0.5";
    if (etcd_) return {"--rdzv_backend=etcd", "--rdzv_endpoint=" + etcd_->endpoints(), "--rdzv_id=job", settings};
    return {"--rdzv_backend=c10d", "--rdzv_endpoint=127.0.0.1:" + port_, settings};
  }

  /// A launcher of two ranks that train.
  void add_launcher() {
    Words words = {"env", kSlowRank0,       LOCKSTEP_BINARY, "run",      "--nproc-per-node",
                   "2",   "--start-method", "spawn",         "--nnodes", "2"};
    for (const auto& part : {rendezvous(), bench_.train(kTraining)})
      words.insert(words.end(), part.begin(), part.end());
    launchers_.push_back(std::make_unique<Agent>(Agent::of_command(words)));
  }

  /// Starts a job of two nodes, and spares; once they have trained a little, its node 0, which runs the service.
  Agent* train(int launchers) {
    for (int i = 0; i < launchers; ++i) add_launcher();
    return has_trained(5) ? node(0) : nullptr;
  }

  /// The launcher whose ranks run as this node.
  Agent* node(int number) {
    Agent* found = nullptr;
    EXPECT_TRUE(wait_until([&] {
      for (auto& launcher : launchers_) {
        if (ranks_below(launcher->pid()).contains(2 * number)) found = launcher.get();
      }
      return found != nullptr;
    })) << said();
    return found;
  }

  /// The launcher and its ranks are gone at once, as with their machine.
  static void lose(Agent& launcher) {
    const auto ranks = ranks_below(launcher.pid());
    launcher.kill(SIGKILL);
    for (const auto& [rank, pid] : ranks) ::kill(pid, SIGKILL);
    launcher.wait();  // until it is no node any more
  }

  bool has_trained(int steps) {
    return wait_until([&] { return has_made_steps(bench_, steps); });
  }

  void expect_end_of_peace(const std::vector<Agent*>& lost) {
    for (auto& launcher : launchers_) {
      const bool is_lost = std::find(lost.begin(), lost.end(), launcher.get()) != lost.end();
      EXPECT_TRUE(is_lost || launcher->wait().ok()) << launcher->said();
    }
    EXPECT_EQ(hash_in(bench_.work_dir()), hash_of_peace(4, kTraining)) << said();
  }

  std::string said() const {
    std::string all;
    for (const auto& launcher : launchers_) all += "--- launcher\n" + launcher->said();
    return all;
  }

  std::optional<EtcdServer> etcd_;
  const std::string port_ = free_port();
  const Workbench bench_;
  std::vector<std::unique_ptr<Agent>> launchers_;
};

TEST_F(LostLaunchers, TheFirstOfThree) {
  if (!start_etcd()) GTEST_SKIP() << *EtcdServer::obstacle();
  Agent* const first = train(3);
  ASSERT_NE(first, nullptr) << said();
  lose(*first);
  expect_end_of_peace({first});
}

TEST_F(LostLaunchers, ThoroughTheFirstOfTwoThatComesBack) {
  if (!start_etcd()) GTEST_SKIP() << *EtcdServer::obstacle();
  Agent* const first = train(2);
  ASSERT_NE(first, nullptr) << said();
  lose(*first);
  add_launcher();
  expect_end_of_peace({first});
}

TEST_F(LostLaunchers, ThoroughOneAfterTheOther) {
  if (!start_etcd(3)) GTEST_SKIP() << *EtcdServer::obstacle();
  Agent* const first = train(4);
  ASSERT_NE(first, nullptr) << said();
  lose(*first);
  Agent* const second = node(0);
  ASSERT_NE(second, nullptr) << said();
  ASSERT_TRUE(has_trained(20)) << said();
  etcd_->kill(0);  // the machine of the service has a member of etcd, too
  lose(*second);
  expect_end_of_peace({first, second});
}

TEST_F(LostLaunchers, ThoroughTheOnlyOtherGoesOnAlone) {
  if (!start_etcd()) GTEST_SKIP() << *EtcdServer::obstacle();
  const auto finish = (bench_.path() / "finish").string();
  const auto start_waiting = [&] {
    Words words = rendezvous();
    words.insert(words.begin(), "--nnodes=1:2");
    return Agent::of_program(words,
                             {"sh", "-c", "echo world $WORLD_SIZE; until [ -e \"$0\" ]; do sleep 0.05; done", finish});
  };
  Agent one = start_waiting();
  Agent two = start_waiting();
  for (Agent* agent : {&one, &two}) ASSERT_TRUE(agent->says("world 2\n")) << agent->said();
  const bool one_is_first = one.said().find("node 0 of 2") != std::string::npos;
  Agent& first = one_is_first ? one : two;
  Agent& other = one_is_first ? two : one;
  first.kill(SIGKILL);
  ASSERT_TRUE(other.says("world 1\n")) << other.said();
  write_file(finish, "");
  EXPECT_TRUE(other.wait().ok()) << other.said();
  EXPECT_THAT(other.said(), HasSubstr("was lost: no heartbeat for 2.5 s"));
}

TEST_F(LostLaunchers, ThoroughTheFirstIsSuspended) {
  if (!start_etcd()) GTEST_SKIP() << *EtcdServer::obstacle();
  Agent* const first = train(3);
  ASSERT_NE(first, nullptr) << said();
  const auto ranks = ranks_below(first->pid());
  first->kill(SIGSTOP);
  for (const auto& [rank, pid] : ranks) ::kill(pid, SIGSTOP);
  const auto& other = launchers_.front().get() == first ? launchers_.back() : launchers_.front();
  ASSERT_TRUE(other->says("round 2: this is node")) << said();
  for (const auto& [rank, pid] : ranks) ::kill(pid, SIGCONT);
  first->kill(SIGCONT);
  expect_end_of_peace({});
  EXPECT_THAT(said(), Not(HasSubstr("round 3")));
}

TEST_F(LostLaunchers, WithoutEtcdTheJobEndsAndTheSameCommandGoesOn) {
  Agent* const first = train(3);
  ASSERT_NE(first, nullptr) << said();
  lose(*first);
  for (auto& launcher : launchers_) {
    if (launcher.get() == first) continue;
    EXPECT_EQ(launcher->wait(), (ExitStatus{1, 0})) << launcher->said();
    EXPECT_THAT(launcher->said(),
                AllOf(HasSubstr("the job's service at 127.0.0.1:" + port_ + " is lost: the launcher that ran it has"),
                      HasSubstr("With --rdzv_backend etcd a job survives the loss of any of its launchers")));
  }
  launchers_.clear();
  for (int i = 0; i < 2; ++i) add_launcher();
  expect_end_of_peace({});
}

/// Whatever moment the launcher that runs the service is killed at, nobody hangs, and the others go on or say why not.
TEST(LostHolders, ThoroughAtAnyMomentOfTheStart) {
  std::mt19937 random(7);
  for (int round = 0; round < 12; ++round) {
    const auto port = free_port();
    const auto start = [&](int is_host) {
      return Agent(
          Rendezvous::at(
              port, fmt::format("is_host={},last_call_timeout=0.5,keep_alive_interval=0.5,join_timeout=8", is_host)),
          {"--nnodes=1:3"}, {"env=WORLD_SIZE", "sleep_ms=1500"});
    };
    Agent host = start(1);
    Agent second = start(0);
    Agent third = start(0);
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 3000));
    host.kill(SIGKILL);
    for (Agent* agent : {&second, &third}) {
      const auto status = agent->wait();
      const auto& said = agent->said();
      if (status.ok()) continue;
      EXPECT_EQ(status, (ExitStatus{1, 0})) << round << said;
      EXPECT_THAT(
          said, AnyOf(HasSubstr("cannot reach the job's service"), HasSubstr("is lost"), HasSubstr("has not answered")))
          << round;
    }
    host.wait();
  }
}

}  // namespace
}  // namespace lockstep::test
