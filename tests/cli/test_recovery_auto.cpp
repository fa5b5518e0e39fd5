// A worker dies in a run that was planned and whose plan was measured beside data parallel.
#include "cli/supervised_job.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

namespace lockstep::test {
namespace {

using namespace std::chrono_literals;
using testing::ContainsRegex;

constexpr auto kTogether = 300s;
constexpr int kRanks = 2;

Words planned_run() {
  return {"parallel.mode=auto", "parallel.verify_plan=2", "data.batch_size=8",        "train.epochs=6",
          "train.eval_every=6", "callbacks.loss_every=1", "callbacks.metrics_every=1"};
}

/// Loss of each step; fails where a step is told twice.
std::map<int, double> losses_in(const std::filesystem::path& work_dir) {
  std::map<int, double> losses;
  std::istringstream lines(read_file(work_dir / "metrics.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    const auto step = nlohmann::json::parse(line);
    EXPECT_TRUE(losses.emplace(step["step"], step["loss"]).second) << line;
  }
  return losses;
}

TEST(RecoveryOfAPlannedRun, ThoroughThePlanIsMeasuredAgainAndTheLossesAreThoseOfPeace) {
  const Workbench peace;
  auto words = peace.train(planned_run());
  words.insert(words.begin(), {LOCKSTEP_BINARY, "run", "--nproc-per-node", std::to_string(kRanks)});
  const auto ran = run_program(words);
  ASSERT_TRUE(ran.status.ok()) << ran.err;
  EXPECT_THAT(ran.out, ContainsRegex("measured over [0-9]+ steps"));
  const auto wanted = losses_in(peace.work_dir());
  ASSERT_EQ(wanted.size(), 12U);

  const Workbench bench;
  SupervisedJob job(bench.path() / "logs", bench.train(planned_run()), kRanks);
  job.start_worker(0);
  job.start_worker(1, {{"LOCKSTEP_FAULT", "rank=1,step=7,action=kill,place=begin"}});
  job.start_all();
  EXPECT_TRUE(job.tend_to_the_end(kTogether)) << job.last_words();
  EXPECT_EQ(job.restarts(), 1) << job.last_words();
  const auto log = job.log_of_worker(0);
  const auto first = log.find("measured over ");
  ASSERT_NE(first, std::string::npos) << log;
  EXPECT_NE(log.find("measured over ", first + 1), std::string::npos) << "by both generations\n" << log;
  const auto got = losses_in(bench.work_dir());
  ASSERT_EQ(got.size(), wanted.size()) << job.last_words();
  for (const auto& [step, loss] : wanted) EXPECT_NEAR(got.at(step), loss, 1e-3 * std::abs(loss)) << "step " << step;
}

}  // namespace
}  // namespace lockstep::test
