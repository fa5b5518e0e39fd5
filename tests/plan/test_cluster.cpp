#include <lockstep/base/error.h>
#include <lockstep/plan/cluster.h>

#include <gtest/gtest.h>

namespace lockstep {
namespace {

using plan::Cluster;

Cluster read(std::string_view text) { return plan::read_cluster(parse_config(text, "cluster.yaml")); }

std::string mistake_in(std::string_view text) {
  try {
    read(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::config);
    return error.what();
  }
  return "no mistake";
}

TEST(Cluster, IsReadFromYaml) {
  const auto cluster = read(R"(
name: two nodes
nodes: 2
devices_per_node: 8
device: {matmul_flops: 1.5e13, memory: 4.0e10}
inter_node: {bandwidth: 2.5e10, latency: 1.0e-5}
overlap: 0.5
)");
  EXPECT_EQ(cluster.name, "two nodes");
  EXPECT_EQ(cluster.devices(), 16);
  EXPECT_EQ(cluster.device.matmul.value, 1.5e13);
  EXPECT_EQ(cluster.device.memory.value, 4e10);
  EXPECT_EQ(cluster.inter_node.bandwidth.value, 2.5e10);
  EXPECT_EQ(cluster.overlap, 0.5);
  EXPECT_EQ(cluster.device.convolution.value, Cluster().device.convolution.value) << "absent keys keep the default";
}

TEST(Cluster, PrintsWhatItReads) {
  Cluster cluster{.name = "mine", .nodes = 3, .devices_per_node = 4};
  cluster.intra_node.bandwidth = {123456};
  cluster.device.matmul_bandwidth = plan::BytesPerSecond{9876};
  const auto again = read(plan::print_cluster(cluster));
  EXPECT_EQ(again.name, "mine");
  EXPECT_EQ(again.devices(), 12);
  EXPECT_EQ(again.intra_node.bandwidth.value, 123456);
  EXPECT_EQ(again.device.matmul_bandwidth.value().value, 9876);
  cluster.device.matmul_bandwidth.reset();
  EXPECT_FALSE(read(plan::print_cluster(cluster)).device.matmul_bandwidth);
}

TEST(Cluster, MistakesAreNamedWithTheirLine) {
  EXPECT_NE(mistake_in("nodes: 0").find("cluster.yaml:1"), std::string::npos);
  EXPECT_NE(mistake_in("nodes: 2.5").find("nodes"), std::string::npos);
  EXPECT_NE(mistake_in("nodes: 1\nintra_node: {bandwith: 3}").find("did you mean 'bandwidth'"), std::string::npos);
  EXPECT_NE(mistake_in("device: {memory: -1}").find("device.memory"), std::string::npos);
  EXPECT_NE(mistake_in("device: {memory: .nan}").find("device.memory"), std::string::npos);
  EXPECT_NE(mistake_in("overlap: 1.5").find("overlap"), std::string::npos);
  EXPECT_NE(mistake_in("intra_node: fast").find("intra_node"), std::string::npos);
  const auto too_many = mistake_in("devices_per_node: 8\nnodes: 1251");
  EXPECT_NE(too_many.find("10008"), std::string::npos) << too_many;
  EXPECT_NE(too_many.find("cluster.yaml:2"), std::string::npos) << too_many;
  EXPECT_EQ(read("devices_per_node: 8\nnodes: 1250").devices(), 10'000);
}

TEST(Cluster, WhatIf) {
  const auto half = plan::scaled(Cluster(), {.network = 2, .memory = 0.5});
  EXPECT_EQ(half.inter_node.bandwidth.value, 2 * Cluster().inter_node.bandwidth.value);
  EXPECT_EQ(half.intra_node.bandwidth.value, Cluster().intra_node.bandwidth.value);
  EXPECT_EQ(half.device.memory.value, Cluster().device.memory.value / 2);
  EXPECT_THROW(plan::scaled(Cluster(), {.network = 0}), Error);
  EXPECT_THROW(plan::scaled(Cluster(), {.memory = -1}), Error);
}

TEST(Cluster, IsMadeForAnotherNumberOfDevices) {
  const Cluster cluster{.nodes = 2, .devices_per_node = 8};
  EXPECT_EQ(plan::resized(cluster, 4).nodes, 1);
  EXPECT_EQ(plan::resized(cluster, 4).devices_per_node, 4);
  EXPECT_EQ(plan::resized(cluster, 64).nodes, 8);
  EXPECT_THROW(plan::resized(cluster, 12), Error);
  EXPECT_THROW(plan::resized(cluster, 0), Error);
}

TEST(Cluster, RepeatedMeasurementsGiveMediansAndShowABusyMachine) {
  plan::Cluster quiet;
  quiet.device.matmul = {100e9};
  quiet.device.matmul_bandwidth = plan::BytesPerSecond{1e10};
  auto slower = quiet;
  slower.device.matmul = {95e9};
  slower.device.matmul_bandwidth.reset();  // a disturbed measurement that did not fit the model
  const auto calm = plan::middle_of({quiet, slower, quiet});
  EXPECT_EQ(calm.cluster.device.matmul.value, 100e9);
  ASSERT_TRUE(calm.cluster.device.matmul_bandwidth);
  EXPECT_EQ(calm.numbers.front().name, "device.matmul_flops");
  EXPECT_NEAR(calm.numbers.front().spread, 0.05, 1e-9);
  EXPECT_EQ(plan::disturbance(calm), "");
  EXPECT_NE(plan::spread_comment(calm, 3).find("device.matmul_flops        5 %"), std::string::npos);

  auto busy = quiet;
  busy.intra_node.latency = quiet.intra_node.latency * 4;
  const auto disturbed = plan::middle_of({quiet, busy, slower});
  EXPECT_EQ(disturbed.cluster.intra_node.latency, quiet.intra_node.latency);
  const auto words = plan::disturbance(disturbed);
  EXPECT_NE(words.find("intra_node.latency by 300 %"), std::string::npos) << words;
  EXPECT_EQ(words.find("matmul_flops"), std::string::npos) << words;
  // What a reader of the file ignores.
  const auto text = plan::print_cluster(disturbed.cluster) + plan::spread_comment(disturbed, 3);
  EXPECT_EQ(read(text).device.matmul, disturbed.cluster.device.matmul);
}

}  // namespace
}  // namespace lockstep
