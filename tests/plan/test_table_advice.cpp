// The choice for embedding tables, against what a step sends and holds in cases that can be counted by hand.
#include <lockstep/plan/tables/table_advice.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace lockstep {
namespace {

using plan::Cluster;
using plan::TableAdvice;
using plan::TableQuestion;
using plan::TableWay;
using testing::HasSubstr;

// Two nodes of one worker each, joined by 200 Mbit/s.
Cluster two_nodes() {
  Cluster cluster{.nodes = 2, .devices_per_node = 1};
  cluster.inter_node = {.bandwidth = {25e6}, .latency = {1e-4}};
  return cluster;
}

// The tables of the benchmark of docs/performance.md: a million rows of 16 and 1 numbers, of which 3,700 are used.
TableQuestion million_rows() {
  return {.tables = {{.name = "wide.weight", .rows = 1'000'000, .dim = 1, .states = 1, .used = 3700},
                     {.name = "deep.weight", .rows = 1'000'000, .dim = 16, .states = 1, .used = 3700}},
          .samples = 1024,
          .counted = "1024 samples of the training data",
          .servers = 2};
}

const plan::TableCost& cost_of(const TableAdvice& advice, TableWay way) {
  return advice.costs.at(static_cast<std::size_t>(way));
}

TEST(TableAdvice, CountsWhatAStepSendsAndHolds) {
  const auto advice = plan::advise(million_rows(), two_nodes());
  const auto& whole = cost_of(advice, TableWay::whole);
  EXPECT_DOUBLE_EQ(whole.sent.value, 68e6);
  EXPECT_DOUBLE_EQ(whole.worker_memory.value, 68e6 * 3) << "weights, gradients, and one state";
  EXPECT_NEAR(whole.communication.value, 68e6 / 25e6, 0.01);
  const auto& rows = cost_of(advice, TableWay::rows);
  EXPECT_DOUBLE_EQ(rows.sent.value, 3700 * (8 + 4 + 8 + 64));
  EXPECT_NEAR(rows.communication.value, 3700 * 84 / 25e6, 1e-3);
  const auto& servers = cost_of(advice, TableWay::servers);
  EXPECT_DOUBLE_EQ(servers.sent.value, 3700 * (16 + 84)) << "ids of the rows that it wants, and rows of gradients";
  EXPECT_NEAR(servers.communication.value, 3700 * 84 / 25e6, 1e-3) << "half of all rows are on the worker's own node";
  EXPECT_DOUBLE_EQ(servers.server_memory.value, 68e6 * 2 / 2);
  EXPECT_LT(servers.worker_memory, rows.worker_memory / 100);
}

TEST(TableAdvice, RowsWinWhereTheTablesFitAndServersWhereTheyDoNot) {
  auto cluster = two_nodes();
  EXPECT_EQ(plan::advise(million_rows(), cluster).best, TableWay::rows);
  cluster.device.memory = {100e6};
  const auto advice = plan::advise(million_rows(), cluster);
  EXPECT_EQ(advice.best, TableWay::servers);
  EXPECT_FALSE(cost_of(advice, TableWay::rows).fits);
  EXPECT_THAT(plan::explain(advice), HasSubstr("Best for the tables: parameter servers. data parallel, whole gradients "
                                               "needs 204 MB on a device of 100 MB"));
  EXPECT_THAT(plan::explain(advice), HasSubstr("As a run: parallel.mode=parameter_server"));
}

TEST(TableAdvice, WholeGradientsWinWhereAStepUsesNearlyAllRows) {
  TableQuestion question = million_rows();
  for (auto& each : question.tables) each.rows = each.used = 100'000;
  EXPECT_EQ(plan::advise(question, two_nodes()).best, TableWay::whole);
}

TEST(TableAdvice, ManyWorkersSendLessToServersThanToEachOther) {
  auto cluster = two_nodes();
  cluster.nodes = 64;
  auto question = million_rows();
  question.servers = 64;
  const auto advice = plan::advise(question, cluster);
  EXPECT_EQ(advice.best, TableWay::servers);
  EXPECT_GT(cost_of(advice, TableWay::rows).time(), 10 * cost_of(advice, TableWay::servers).time());
}

TEST(TableAdvice, TakesAsManyServersAsTheRowsNeed) {
  auto question = million_rows();
  question.servers = 0;
  EXPECT_EQ(plan::advise(question, two_nodes()).servers, 2) << "one on each node";
  auto cluster = two_nodes();
  cluster.device.memory = {20e6};
  EXPECT_EQ(plan::advise(question, cluster).servers, 7) << "136 MB in parts of 20";
  question.replicas = 2;
  EXPECT_EQ(plan::advise(question, cluster).servers, 14);
}

TEST(TableAdvice, OneWorkerSendsNothing) {
  const auto advice = plan::advise(million_rows(), Cluster{});
  EXPECT_EQ(cost_of(advice, TableWay::whole).communication.value, 0);
  EXPECT_EQ(cost_of(advice, TableWay::rows).communication.value, 0);
  EXPECT_EQ(advice.best, TableWay::rows) << "it updates 3,700 rows";
}

TEST(TableAdvice, NothingFitsIsSaid) {
  auto cluster = two_nodes();
  cluster.device.memory = {1e6};
  EXPECT_THAT(plan::explain(plan::advise(million_rows(), cluster)), HasSubstr("nothing fits into 1 MB a device"));
}

TEST(TableAdvice, JsonHasTheSameNumbers) {
  const auto advice = plan::advise(million_rows(), two_nodes());
  const auto json = nlohmann::json::parse(plan::advice_json(advice));
  EXPECT_EQ(json["best"], "data parallel, rows");
  EXPECT_EQ(json["servers"], 2);
  EXPECT_EQ(json["tables"][1]["used_rows"], 3700);
  EXPECT_EQ(json["ways"].size(), 3U);
  EXPECT_EQ(json["ways"][0]["sent_bytes"], 68e6);
}

}  // namespace
}  // namespace lockstep
