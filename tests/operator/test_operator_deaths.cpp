// Operators that die by SIGKILL at each request they make. The next one must bring the job to the same end, and make no
// Pod and count no restart twice.
#include <apps/operator/job/json.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <set>

#include "operator/faulty_server.h"
#include "operator/job_driver.h"
#include "operator/operator_process.h"

namespace lockstep::test {
namespace {

using namespace std::chrono_literals;

/// Where a death strikes.
enum class Moment { before_the_server_did_it, after_it };

/// Which requests count: what an operator reads changes nothing, so most tests need only its writes.
enum class Counted { writes, all_but_watches };

/// One job with a lost worker, and operators that are killed at the requests that `dies` picks by their number.
class Life {
 public:
  Life(std::string space, Moment moment, Counted counted, std::function<bool(int request)> dies)
      : space_(std::move(space)),
        moment_(moment),
        counted_(counted),
        dies_(std::move(dies)),
        server_([this](const FaultyServer::Request& r) { return choose(r); }) {}

  void run() {
    JobDriver job(space_, "mlp");
    job.create(simple_job("mlp", 2));
    restart();
    const bool ended = job.lose_worker_and_end([&] {
      if (operator_->child().poll()) restart();
      for (const json& pod : job.pods()) uids_.insert(kube::uid_of(pod));
    });
    ASSERT_TRUE(ended) << job.describe();
    const auto status = job.status();
    EXPECT_TRUE(status.holds(kube::kSucceeded)) << job.describe();
    EXPECT_EQ(status.restarts, 1) << job.describe();
    EXPECT_EQ(status.attempt, 2) << job.describe();
    EXPECT_LE(uids_.size(), 4U) << "more Pods than ranks";
  }

  int deaths() const { return deaths_; }

 private:
  void restart() {
    operator_.emplace(server_.kubeconfig(), space_, std::vector<std::string>{"--no-leader-election"});
    pid_ = operator_->child().pid();
  }

  FaultyServer::Fault choose(const FaultyServer::Request& request) {
    FaultyServer::Fault fault;
    if (request.is_watch() || (counted_ == Counted::writes && !request.is_write())) return fault;
    if (!dies_(++requests_)) return fault;
    ++deaths_;
    const auto kill = [this] { ::kill(pid_, SIGKILL); };
    if (moment_ == Moment::after_it) {
      fault.after = kill;
      fault.lose_answer = true;
    } else {
      fault.before = kill;
      fault.lose_request = true;
    }
    return fault;
  }

  std::string space_;
  Moment moment_;
  Counted counted_;
  std::function<bool(int)> dies_;
  std::atomic<int> requests_{0};
  std::atomic<int> deaths_{0};
  std::atomic<pid_t> pid_{-1};
  std::set<std::string> uids_;
  FaultyServer server_;
  std::optional<OperatorProcess> operator_;
};

class OperatorDeaths : public testing::Test {
 protected:
  void SetUp() override {
    if (const auto why = KubeServer::obstacle()) GTEST_SKIP() << *why;
  }
};

TEST_F(OperatorDeaths, EachOperatorLivesForOneWrite) {
  Life life(KubeServer::get().new_space(), Moment::after_it, Counted::writes, [](int) { return true; });
  life.run();
  EXPECT_GT(life.deaths(), 10);
}

TEST_F(OperatorDeaths, EverySecondWriteIsLostWithItsOperator) {
  Life life(KubeServer::get().new_space(), Moment::before_the_server_did_it, Counted::writes,
            [](int write) { return write % 2 == 0; });
  life.run();
  EXPECT_GT(life.deaths(), 5);
}

TEST_F(OperatorDeaths, OneDeathAtEachRequest) {
  for (int at = 1;; ++at) {
    // The two tests above have the other half.
    const auto moment = at % 2 == 0 ? Moment::after_it : Moment::before_the_server_did_it;
    Life life(KubeServer::get().new_space(), moment, Counted::all_but_watches,
              [at](int request) { return request == at; });
    life.run();
    if (HasFatalFailure() || HasNonfatalFailure()) FAIL() << "when it died at request " << at;
    if (life.deaths() == 0) break;  // it had come to its end before
  }
}

}  // namespace
}  // namespace lockstep::test
