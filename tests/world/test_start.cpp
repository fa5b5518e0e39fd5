// The ways in that start one process a node.
#include <lockstep/base/unique_fd.h>
#include <lockstep/world/await_listener.h>
#include <lockstep/world/start.h>

#include <netinet/in.h>
#include <sys/socket.h>

#include "world/world_cases.h"

namespace lockstep {
namespace {

using test::brief;
using test::environment_of;
using test::expect_error;

std::string brief(const Start& start) { return brief(start.world) + " x" + std::to_string(start.ranks); }

NodeList nodes(std::vector<std::string> addresses, std::optional<std::uint16_t> port = 9988, int devices = 1) {
  return {std::move(addresses), port, devices};
}

Start start_with(std::string_view variables, const StartOptions& options = {}) {
  return detect_start(environment_of(variables), options);
}

// ---- a list of nodes

TEST(NodeList, FindsItsNode) {
  const auto start = [](const NodeList& list, const std::vector<int>& own, std::string_view variables = "") {
    return brief(detail::start_of_node_list(list, own, environment_of(variables)));
  };
  const NodeList two = nodes({"192.168.1.12", "192.168.1.11"});
  EXPECT_EQ(start(two, {0}), "nodes 0/2 local 0/1 tcp 192.168.1.12:9988 x1");
  EXPECT_EQ(start(two, {1}), "nodes 1/2 local 0/1 tcp 192.168.1.12:9988 x1");
  EXPECT_EQ(start(nodes({"a", "b", "c"}, 5, 4), {2}), "nodes 8/12 local 0/4 tcp a:5 x4");
  EXPECT_EQ(start(two, {0}, "LOCKSTEP_NODE_ADDR=192.168.1.11"), "nodes 1/2 local 0/1 tcp 192.168.1.12:9988 x1");
  EXPECT_EQ(start(two, {}, "LOCKSTEP_NODE_ADDR=192.168.1.11"), "nodes 1/2 local 0/1 tcp 192.168.1.12:9988 x1");
  // One node needs no port: its ranks meet at a free one.
  EXPECT_EQ(start(nodes({"127.0.0.1"}, std::nullopt, 1), {0}), "nodes 0/1 local 0/1 alone x1");
  EXPECT_EQ(start(nodes({"127.0.0.1"}, std::nullopt, 2), {0}), "nodes 0/2 local 0/2 tcp 127.0.0.1:0 x2");
}

TEST(NodeList, RefusesListsThatCannotBe) {
  const auto refuse = [](ErrorKind kind, const NodeList& list, const std::vector<int>& own, std::string_view variables,
                         std::initializer_list<std::string_view> words) {
    expect_error(kind, words, [&] { detail::start_of_node_list(list, own, environment_of(variables)); });
  };
  refuse(ErrorKind::config, nodes({}), {}, "", {"empty", "node 0 first"});
  refuse(ErrorKind::config, nodes({"a", ""}), {0}, "", {"node 1 has no address"});
  refuse(ErrorKind::config, nodes({"a", "b", "a"}), {0}, "", {"a occurs twice", "a, b, a"});
  refuse(ErrorKind::config, nodes({"a", "b"}, std::nullopt), {0}, "", {"2 nodes need ctrl_port", "(a)", "9988"});
  refuse(ErrorKind::config, nodes({"a"}, 5, 0), {0}, "", {"devices_per_node is 0"});
  refuse(ErrorKind::environment, nodes({"a", "b"}), {}, "", {"none of the nodes a, b", "LOCKSTEP_NODE_ADDR"});
  refuse(ErrorKind::environment, nodes({"a", "b"}), {0, 1}, "", {"2 of the nodes a, b", "LOCKSTEP_NODE_ADDR"});
  refuse(ErrorKind::environment, nodes({"a", "b"}), {0}, "LOCKSTEP_NODE_ADDR=c", {"'c'", "none of the nodes a, b"});
}

TEST(NodeList, AsksTheSystemWhichNodesAreItsOwn) {
  EXPECT_EQ(detail::find_own_nodes(nodes({"192.0.2.1", "127.0.0.3", "no-such-host.invalid", "localhost"})),
            (std::vector<int>{1, 3}));
  EXPECT_EQ(brief(start_with("", {.nodes = nodes({"192.0.2.1", "127.0.0.3"})})),
            "nodes 1/2 local 0/1 tcp 192.0.2.1:9988 x1");
  EXPECT_EQ(
      describe(start_with("", {.nodes = nodes({"192.0.2.1", "127.0.0.3"}, 9988, 2)})),
      "node 1 of 2, started by nodes (nodes 192.0.2.1, 127.0.0.3, this is 127.0.0.3, ctrl_port 9988): ranks 2 to 3 "
      "of 4");
}

// ---- a cloud

constexpr std::string_view kCloud = "VC_WORKER_HOSTS=job-0,job-1 VC_TASK_INDEX=1 MA_NUM_HOSTS=2 MA_NUM_GPUS=8";

std::string in_cloud(std::string_view more) { return std::string(kCloud) + " " + std::string(more); }

TEST(WorldCloud, ReadsThePlatformsVariables) {
  EXPECT_EQ(brief(start_with(kCloud)), "cloud 8/16 local 0/8 tcp job-0:6060 x8");
  EXPECT_EQ(brief(start_with(in_cloud("MASTER_ADDR=h MASTER_PORT=5"))), "cloud 8/16 local 0/8 tcp h:5 x8");
  EXPECT_EQ(brief(start_with(in_cloud("LOCKSTEP_INIT_METHOD=file:///m"))), "cloud 8/16 local 0/8 file /m x8");
  // A flavour without GPUs, and one host alone.
  EXPECT_EQ(brief(start_with("VC_WORKER_HOSTS=job-0,job-1 VC_TASK_INDEX=0 MA_NUM_HOSTS=2 MA_NUM_GPUS=0")),
            "cloud 0/2 local 0/1 tcp job-0:6060 x1");
  EXPECT_EQ(brief(start_with("VC_TASK_INDEX=0 MA_NUM_HOSTS=1 MA_NUM_GPUS=4")),
            "cloud 0/4 local 0/4 tcp 127.0.0.1:0 x4");
  EXPECT_EQ(brief(start_with("VC_TASK_INDEX=0 MA_NUM_HOSTS=1")), "cloud 0/1 local 0/1 alone x1");
  EXPECT_EQ(start_with(kCloud).world.evidence, "VC_TASK_INDEX=1 MA_NUM_HOSTS=2 MA_NUM_GPUS=8 master=job-0:6060");
}

TEST(WorldCloud, RefusesHalfAndImpossibleSettings) {
  test::expect_refusals({
      {"VC_TASK_INDEX=0", {"VC_TASK_INDEX is set but MA_NUM_HOSTS is not"}},
      {"MA_NUM_HOSTS=2", {"MA_NUM_HOSTS is set but VC_TASK_INDEX is not"}},
      {"VC_TASK_INDEX=2 MA_NUM_HOSTS=2", {"VC_TASK_INDEX=2", "MA_NUM_HOSTS=2", "0 to 1"}},
      {"VC_TASK_INDEX=0 MA_NUM_HOSTS=2", {"VC_WORKER_HOSTS", "MASTER_ADDR"}},
      {"VC_TASK_INDEX=0 MA_NUM_HOSTS=2 VC_WORKER_HOSTS=a", {"VC_WORKER_HOSTS='a' names 1 host,", "MA_NUM_HOSTS=2"}},
      {in_cloud("X=1 MASTER_PORT=x"), {"MASTER_PORT='x'"}},
      {"VC_TASK_INDEX=x MA_NUM_HOSTS=2", {"VC_TASK_INDEX='x'"}},
      // A program that calls detect_world is one rank and cannot be eight.
      {kCloud, {"cloud", "one process for 8 ranks", "lockstep run --nproc_per_node 8"}},
  });
  test::expect_refusals({{"", {"launcher cloud was requested", "VC_TASK_INDEX and MA_NUM_HOSTS"}}}, "cloud");
  test::expect_refusals({{"", {"launcher nodes was requested", "parallel.nodes"}}}, "nodes");
}

// ---- arguments

StartOptions arguments(std::optional<std::int64_t> rank, std::optional<std::int64_t> size,
                       std::optional<std::string> method = std::nullopt, std::optional<int> devices = std::nullopt) {
  StartOptions options;
  options.arguments = {std::move(method), rank, size};
  options.devices_per_node = devices;
  return options;
}

TEST(InitArguments, CountNodes) {
  const std::optional<std::string> tcp = "tcp://h:5";
  EXPECT_EQ(brief(start_with("", arguments(1, 2, tcp))), "arguments 1/2 local 0/1 tcp h:5 x1");
  EXPECT_EQ(brief(start_with("", arguments(1, 2, tcp, 4))), "arguments 4/8 local 0/4 tcp h:5 x4");
  EXPECT_EQ(brief(start_with("MA_NUM_GPUS=2", arguments(1, 2, tcp, 4))), "arguments 2/4 local 0/2 tcp h:5 x2");
  EXPECT_EQ(brief(start_with(kCloud, arguments(1, 2, tcp))), "arguments 8/16 local 0/8 tcp h:5 x8");
  EXPECT_EQ(brief(start_with("", arguments(0, 1, "file:///m", 2))), "arguments 0/2 local 0/2 file /m x2");
  EXPECT_EQ(brief(start_with("MASTER_ADDR=h MASTER_PORT=6", arguments(1, 2, "env://"))),
            "arguments 1/2 local 0/1 tcp h:6 x1");
  EXPECT_EQ(brief(start_with("", arguments(0, 1))), "arguments 0/1 local 0/1 alone x1");
  EXPECT_EQ(brief(start_with("", arguments(0, 1, std::nullopt, 2))), "arguments 0/2 local 0/2 tcp 127.0.0.1:0 x2");
  // With a query it speaks of this process alone.
  EXPECT_EQ(brief(start_with("", arguments(std::nullopt, std::nullopt, "tcp://h:5?rank=1&world_size=2"))),
            "pytorch 1/2 local -1/0 tcp h:5 x1");
  // Without rank and world size it says where the ranks meet that a launcher started.
  EXPECT_EQ(brief(start_with("RANK=1 WORLD_SIZE=2", arguments(std::nullopt, std::nullopt, tcp))),
            "pytorch 1/2 local -1/0 tcp h:5 x1");
}

TEST(InitArguments, MustFitEachOtherAndTheEnvironment) {
  const auto refuse = [](ErrorKind kind, std::string_view variables, const StartOptions& options,
                         std::initializer_list<std::string_view> words) {
    expect_error(kind, words, [&] { start_with(variables, options); });
  };
  const auto invalid = ErrorKind::invalid_argument;
  const auto environment = ErrorKind::environment;
  refuse(invalid, "", arguments(0, std::nullopt), {"--rank is given but --world_size is not"});
  refuse(invalid, "", arguments(std::nullopt, 2), {"--world_size is given but --rank is not"});
  refuse(invalid, "", arguments(2, 2), {"--rank 2 must be from 0 to 1", "number of this node"});
  refuse(invalid, "", arguments(-1, 2), {"--rank -1"});
  refuse(invalid, "", arguments(0, 0), {"--world_size 0"});
  refuse(invalid, "", arguments(0, 2), {"--world_size 2 needs --init_method tcp://HOST:PORT"});
  refuse(environment, "", arguments(0, 2, "h:5"), {"'h:5'", "tcp://HOST:PORT"});
  refuse(invalid, "", arguments(0, 2, "tcp://h:5?rank=0&world_size=2"), {"count nodes", "the part after '?'"});
  refuse(environment, kCloud, arguments(0, 2, "tcp://h:5"), {"--rank 0 contradicts VC_TASK_INDEX=1"});
  refuse(environment, kCloud, arguments(1, 3, "tcp://h:5"), {"--world_size 3 contradicts MA_NUM_HOSTS=2"});
  refuse(environment, "RANK=1 WORLD_SIZE=2 MASTER_ADDR=h MASTER_PORT=5", arguments(0, 2, "tcp://h:5"),
         {"--rank 0 --world_size 2", "count nodes", "pytorch (RANK=1 WORLD_SIZE=2", "one of 2"});
}

// ---- several ways at once

TEST(StartOrder, LaunchersOfRanksWinOverThoseOfNodes) {
  const std::string torch = "RANK=1 WORLD_SIZE=2 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 MASTER_ADDR=h MASTER_PORT=5";
  StartOptions listed;
  listed.nodes = nodes({"127.0.0.2", "192.0.2.1"});
  const Start inner = start_with(in_cloud(torch), listed);
  EXPECT_EQ(brief(inner), "pytorch 1/2 local 1/2 tcp h:5 x1");
  test::expect_words(inner.world.evidence, {", which takes precedence over cloud, which takes precedence over the "
                                            "list of nodes"});
  const Start cloud = start_with(kCloud, listed);
  EXPECT_EQ(cloud.world.launcher, "cloud");
  test::expect_words(cloud.world.evidence, {"which takes precedence over the list of nodes"});
  listed.launcher = "nodes";
  EXPECT_EQ(brief(start_with(in_cloud(torch), listed)), "nodes 0/2 local 0/1 tcp 127.0.0.2:9988 x1");
  listed.launcher = "none";
  EXPECT_EQ(brief(start_with(in_cloud(torch), listed)), "none 0/1 local 0/1 alone x1");
  expect_error(ErrorKind::environment, {"pytorch", "contradicts cloud", "2 processes cannot be 1 rank;"},
               [] { start_with(in_cloud("RANK=0 WORLD_SIZE=1")); });
}

// ---- waiting for the master

TEST(AwaitListener, ReturnsWhenSomebodyListensAndElseSaysWhyNot) {
  const UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* raw = reinterpret_cast<sockaddr*>(&address);
  ASSERT_EQ(::bind(socket.get(), raw, length), 0);
  ASSERT_EQ(::getsockname(socket.get(), raw, &length), 0);
  const std::uint16_t port = ntohs(address.sin_port);
  int told = 0;
  const auto open_when_told = [&](std::chrono::seconds waited, const std::string& reason) {
    ++told;
    EXPECT_GE(waited.count(), 2);
    EXPECT_EQ(reason, "Connection refused");
    EXPECT_EQ(::listen(socket.get(), 1), 0);
  };
  const auto await = [&](int milliseconds) {
    return await_listener("127.0.0.1", port, std::chrono::milliseconds(milliseconds), open_when_told);
  };
  EXPECT_EQ(await(100), "Connection refused");
  EXPECT_EQ(told, 0);
  EXPECT_EQ(await(60000), std::nullopt);
  EXPECT_EQ(told, 1);
  EXPECT_EQ(await(60000), std::nullopt);
  const auto nowhere = await_listener("no-such-host.invalid", port, std::chrono::milliseconds(1), open_when_told);
  ASSERT_TRUE(nowhere);
  test::expect_words(*nowhere, {"the name does not resolve"});
}

}  // namespace
}  // namespace lockstep
