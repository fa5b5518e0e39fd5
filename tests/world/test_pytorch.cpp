#include <lockstep/world/detect.h>

#include "world/world_cases.h"

namespace lockstep {
namespace {

using test::environment_of;
using test::expect_readings;
using test::expect_refusals;

constexpr std::string_view kNode0 = "MASTER_ADDR=node0 MASTER_PORT=29500";

TEST(WorldPytorch, ReadsWhatTorchrunSets) {
  expect_readings({
      {"RANK=3 WORLD_SIZE=4 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 MASTER_ADDR=node0 MASTER_PORT=29500",
       "pytorch 3/4 local 1/2 tcp node0:29500"},
      {"RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=2 MASTER_ADDR=10.0.0.1 MASTER_PORT=1",
       "pytorch 0/2 local 0/2 tcp 10.0.0.1:1"},
      {"RANK=1 WORLD_SIZE=2 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 MASTER_ADDR=[fe80::1] MASTER_PORT=65535",
       "pytorch 1/2 local 1/2 tcp fe80::1:65535"},
      {"RANK=0 WORLD_SIZE=1 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 MASTER_ADDR=h MASTER_PORT=2",
       "pytorch 0/1 local 0/1 alone"},
      {"RANK=0 WORLD_SIZE=1", "pytorch 0/1 local 0/1 alone"},
  });
}

TEST(WorldPytorch, DerivesLocalNumbersOnlyWhereTheyAreCertain) {
  expect_readings({
      // A loopback master may be that of Kubeflow's PyTorchJob, whose ranks are each on a host of their own.
      {"RANK=0 WORLD_SIZE=4 MASTER_ADDR=localhost MASTER_PORT=5", "pytorch 0/4 local -1/0 tcp localhost:5"},
      {"RANK=1 WORLD_SIZE=4 MASTER_ADDR=127.0.0.1 MASTER_PORT=5", "pytorch 1/4 local -1/0 tcp 127.0.0.1:5"},
      {"RANK=1 WORLD_SIZE=4 MASTER_ADDR=node0 MASTER_PORT=5", "pytorch 1/4 local -1/0 tcp node0:5"},
      // torch.distributed.launch before 1.9 set no LOCAL_WORLD_SIZE.
      {"RANK=1 WORLD_SIZE=4 LOCAL_RANK=1 MASTER_ADDR=127.0.0.1 MASTER_PORT=5", "pytorch 1/4 local 1/4 tcp 127.0.0.1:5"},
      {"RANK=1 WORLD_SIZE=4 LOCAL_WORLD_SIZE=4 MASTER_ADDR=localhost MASTER_PORT=5",
       "pytorch 1/4 local 1/4 tcp localhost:5"},
      // From another host how many ranks this one has is told when they meet.
      {"RANK=3 WORLD_SIZE=4 LOCAL_RANK=1 MASTER_ADDR=node0 MASTER_PORT=5", "pytorch 3/4 local 1/0 tcp node0:5"},
      {"RANK=3 WORLD_SIZE=4 LOCAL_RANK=1 LOCKSTEP_INIT_METHOD=file:///m", "pytorch 3/4 local 1/0 file /m"},
      // Two agents on one host, as in tests.
      {"RANK=3 WORLD_SIZE=4 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=5",
       "pytorch 3/4 local 1/2 tcp 127.0.0.1:5"},
  });
  expect_refusals({
      {"RANK=1 WORLD_SIZE=4 LOCAL_WORLD_SIZE=2 MASTER_ADDR=node0 MASTER_PORT=5",
       {"LOCAL_WORLD_SIZE=2", "LOCAL_RANK is not"}},
      {"RANK=3 WORLD_SIZE=4 LOCAL_RANK=1 MASTER_ADDR=127.0.0.1 MASTER_PORT=5", {"LOCAL_RANK=1", "LOCAL_WORLD_SIZE"}},
      {"RANK=3 WORLD_SIZE=4 LOCAL_RANK=4 MASTER_ADDR=node0 MASTER_PORT=5", {"LOCAL_RANK=4"}},
  });
}

TEST(WorldPytorch, RefusesHalfAndImpossibleSettings) {
  const std::string master(kNode0);
  const std::vector<std::pair<std::string, std::vector<std::string_view>>> cases = {
      {"RANK=0", {"RANK is set", "WORLD_SIZE is not", "set both", "unset RANK"}},
      {"WORLD_SIZE=2", {"WORLD_SIZE is set", "RANK is not", "unset WORLD_SIZE"}},
      {"RANK=2 WORLD_SIZE=2", {"RANK=2", "WORLD_SIZE=2", "0 to 1"}},
      {"RANK=-1 WORLD_SIZE=2", {"RANK=-1", "out of range"}},
      {"RANK=0 WORLD_SIZE=0", {"WORLD_SIZE=0", "out of range"}},
      {"RANK=one WORLD_SIZE=2", {"RANK='one'", "not an integer"}},
      {"RANK= WORLD_SIZE=2", {"RANK=''", "not an integer", "unset"}},
      {"RANK=0 WORLD_SIZE=99999999999", {"WORLD_SIZE=99999999999", "out of range"}},
      {"RANK=0 WORLD_SIZE=4 LOCAL_RANK=2 LOCAL_WORLD_SIZE=2 " + master, {"LOCAL_RANK=2", "LOCAL_WORLD_SIZE=2"}},
      {"RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=4 " + master, {"LOCAL_WORLD_SIZE=4", "WORLD_SIZE=2"}},
      {"RANK=0 WORLD_SIZE=2 LOCAL_RANK=x LOCAL_WORLD_SIZE=2 " + master, {"LOCAL_RANK='x'"}},
      {"RANK=0 WORLD_SIZE=2", {"RANK=0 WORLD_SIZE=2", "MASTER_ADDR and MASTER_PORT", "both are not set"}},
      {"RANK=0 WORLD_SIZE=2 MASTER_PORT=5", {"MASTER_ADDR is not set", "host of rank 0"}},
      {"RANK=0 WORLD_SIZE=2 MASTER_ADDR= MASTER_PORT=5", {"MASTER_ADDR is not set"}},
      {"RANK=0 WORLD_SIZE=2 MASTER_ADDR=h", {"MASTER_PORT is not set"}},
      {"RANK=0 WORLD_SIZE=2 MASTER_ADDR=h MASTER_PORT=http", {"MASTER_PORT='http'", "not an integer"}},
      {"RANK=0 WORLD_SIZE=2 MASTER_ADDR=h MASTER_PORT=0", {"MASTER_PORT=0", "from 1 to 65535"}},
      {"RANK=0 WORLD_SIZE=2 MASTER_ADDR=h MASTER_PORT=65536", {"MASTER_PORT=65536", "from 1 to 65535"}},
      {"RANK=0 WORLD_SIZE=1 MASTER_PORT=x", {"MASTER_PORT='x'"}},
  };
  for (const auto& [text, words] : cases) expect_refusals({{text, words}});
}

TEST(WorldPytorch, MeetsByInitMethod) {
  expect_readings({
      {"RANK=1 WORLD_SIZE=2 LOCKSTEP_INIT_METHOD=tcp://node7:1234", "pytorch 1/2 local -1/0 tcp node7:1234"},
      {"RANK=1 WORLD_SIZE=2 LOCKSTEP_INIT_METHOD=tcp://[::1]:1234", "pytorch 1/2 local -1/0 tcp ::1:1234"},
      {"RANK=1 WORLD_SIZE=2 LOCKSTEP_INIT_METHOD=tcp://node7:1234 MASTER_ADDR=h MASTER_PORT=5",
       "pytorch 1/2 local -1/0 tcp node7:1234"},
      {"RANK=1 WORLD_SIZE=2 LOCKSTEP_INIT_METHOD=file:///shared/meet", "pytorch 1/2 local -1/0 file /shared/meet"},
      {"RANK=1 WORLD_SIZE=2 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 LOCKSTEP_INIT_METHOD=file:///m",
       "pytorch 1/2 local 1/2 file /m"},
      {"RANK=1 WORLD_SIZE=2 LOCKSTEP_INIT_METHOD=env:// MASTER_ADDR=h MASTER_PORT=5", "pytorch 1/2 local -1/0 tcp h:5"},
      {"RANK=0 WORLD_SIZE=1 LOCKSTEP_INIT_METHOD=file:///m", "pytorch 0/1 local 0/1 alone"},
      {"LOCKSTEP_INIT_METHOD=env://", "none 0/1 local 0/1 alone"},
  });
  const std::vector<std::pair<std::string, std::string_view>> cases = {
      {"tcp://node7", "no host and port from 1 to 65535"},
      {"tcp://:5", "no host and port from 1 to 65535"},
      {"tcp://h:0", "no host and port from 1 to 65535"},
      {"tcp://h:65536", "no host and port from 1 to 65535"},
      {"tcp://h:", "no host and port from 1 to 65535"},
      {"tcp://::1:5", "no host and port from 1 to 65535"},
      {"file://relative", "absolute path"},
      {"file:///", "absolute path"},
      {"node7:1234", "unknown scheme"},
      {"etcd://h:5", "unknown scheme"},
      {"", "unknown scheme"},
  };
  for (const auto& [method, words] : cases) {
    expect_refusals({{"RANK=0 WORLD_SIZE=2 LOCKSTEP_INIT_METHOD=" + method,
                      {"LOCKSTEP_INIT_METHOD='" + method + "'", words, "file:///PATH"}}});
  }
  expect_refusals({{"LOCKSTEP_INIT_METHOD=tcp://h:5", {"LOCKSTEP_INIT_METHOD", "RANK and WORLD_SIZE are not"}}});
}

TEST(WorldPytorch, TheInitMethodMaySayWhoThisIs) {
  expect_readings({
      {"LOCKSTEP_INIT_METHOD=tcp://node7:1234?rank=1&world_size=2", "pytorch 1/2 local -1/0 tcp node7:1234"},
      {"LOCKSTEP_INIT_METHOD=tcp://[::1]:1234?world_size=2&rank=0", "pytorch 0/2 local -1/0 tcp ::1:1234"},
      {"LOCKSTEP_INIT_METHOD=file:///m?rank=1&world_size=2", "pytorch 1/2 local -1/0 file /m"},
      {"LOCKSTEP_INIT_METHOD=env://?rank=1&world_size=2 MASTER_ADDR=h MASTER_PORT=5", "pytorch 1/2 local -1/0 tcp h:5"},
      {"LOCKSTEP_INIT_METHOD=tcp://h:5?rank=0&world_size=1", "pytorch 0/1 local 0/1 alone"},
      {"LOCKSTEP_INIT_METHOD=tcp://h:5?rank=3&world_size=4 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2",
       "pytorch 3/4 local 1/2 tcp h:5"},
  });
  const std::string both = "LOCKSTEP_INIT_METHOD=tcp://h:5?rank=1&world_size=2 ";
  expect_refusals({
      {both + "RANK=1 WORLD_SIZE=2", {"gives the rank", "RANK does too", "leave one out"}},
      {both + "WORLD_SIZE=2", {"WORLD_SIZE does too"}},
      {"LOCKSTEP_INIT_METHOD=tcp://h:5?rank=1", {"only one of rank and world_size"}},
      {"LOCKSTEP_INIT_METHOD=tcp://h:5?world_size=2 RANK=0", {"only one of rank and world_size"}},
      {"LOCKSTEP_INIT_METHOD=tcp://h:5?rank=2&world_size=2", {"rank=2 is not below world_size=2"}},
      {"LOCKSTEP_INIT_METHOD=tcp://h:5?rank=x&world_size=2", {"rank='x'", "not an integer"}},
      {"LOCKSTEP_INIT_METHOD=tcp://h:5?rank=1&rank=1&world_size=2",
       {"a query of another form", "?rank=R&world_size=N"}},
      {"LOCKSTEP_INIT_METHOD=tcp://h:5?rank=1&world_size=2&", {"a query of another form"}},
      {"LOCKSTEP_INIT_METHOD=tcp://h:5? RANK=0 WORLD_SIZE=2", {"a query of another form"}},
      {"LOCKSTEP_INIT_METHOD=tcp://h?rank=1&world_size=2", {"no host and port"}},
  });
  const std::string under_mpirun =
      "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=1 OMPI_COMM_WORLD_LOCAL_SIZE=2 ";
  expect_readings({{both + under_mpirun, "open_mpi 1/2 local 1/2 tcp h:5"}}, "open_mpi");
  expect_refusals({{"LOCKSTEP_INIT_METHOD=tcp://h:5?rank=0&world_size=2 " + under_mpirun,
                    {"contradicts OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2"}}},
                  "open_mpi");
}

TEST(InitMethod, IsGivenByAProgram) {
  const auto world = [](const InitMethod& method, std::string_view variables = "") {
    return test::brief(detail::world_of_init_method(method, environment_of(variables)));
  };
  const std::string launched = "RANK=1 WORLD_SIZE=2 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 MASTER_ADDR=h MASTER_PORT=5";
  EXPECT_EQ(world({"tcp://a:1", 3, 4}), "pytorch 3/4 local -1/0 tcp a:1");
  EXPECT_EQ(world({"file:///m", 3, 4}), "pytorch 3/4 local -1/0 file /m");
  EXPECT_EQ(world({"env://", 3, 4}, "MASTER_ADDR=h MASTER_PORT=5"), "pytorch 3/4 local -1/0 tcp h:5");
  EXPECT_EQ(world({"tcp://a:1?rank=0&world_size=2"}, launched), "pytorch 0/2 local -1/0 tcp a:1");
  // Who the launcher says this is, where nothing else does or the same.
  EXPECT_EQ(world({"tcp://a:1"}, launched), "pytorch 1/2 local 1/2 tcp a:1");
  EXPECT_EQ(world({"tcp://a:1", 1, 2}, launched), "pytorch 1/2 local 1/2 tcp a:1");
  EXPECT_EQ(world({"tcp://a:1", 5, 8}, launched), "pytorch 5/8 local -1/0 tcp a:1");
  EXPECT_EQ(world({}, launched), "pytorch 1/2 local 1/2 tcp h:5");
  EXPECT_EQ(world({}), "none 0/1 local 0/1 alone");
  const auto refuse = [&](ErrorKind kind, const InitMethod& method, std::initializer_list<std::string_view> words) {
    test::expect_error(kind, words, [&] { world(method); });
  };
  refuse(ErrorKind::invalid_argument, {"tcp://a:1", 3, std::nullopt}, {"rank is given but world_size is not"});
  refuse(ErrorKind::invalid_argument, {"tcp://a:1?rank=1&world_size=2", 1, 2}, {"has a query", "one of the two"});
  refuse(ErrorKind::environment, {"tcp://a:1", 4, 4}, {"RANK=4 is not below WORLD_SIZE=4"});
  refuse(ErrorKind::environment, {"tcp://a:1"}, {"RANK and WORLD_SIZE are not"});
  refuse(ErrorKind::environment, {"env://", 0, 2}, {"MASTER_ADDR and MASTER_PORT"});
  refuse(ErrorKind::environment, {"ucx://a:1", 0, 2}, {"unknown scheme"});
}

TEST(WorldPytorch, UsesTheStoreOfTheAgent) {
  const std::string base = "RANK=1 WORLD_SIZE=2 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 MASTER_ADDR=h MASTER_PORT=5 ";
  const World plain = detect_world(environment_of(base + "TORCHELASTIC_USE_AGENT_STORE=False"));
  EXPECT_FALSE(plain.store_is_external);
  EXPECT_EQ(plain.store_prefix, "");
  const World first = detect_world(environment_of(base + "TORCHELASTIC_USE_AGENT_STORE=True"));
  EXPECT_TRUE(first.store_is_external);
  EXPECT_EQ(first.store_prefix, "/worker/attempt_0");
  const World third =
      detect_world(environment_of(base + "TORCHELASTIC_USE_AGENT_STORE=True TORCHELASTIC_RESTART_COUNT=2"));
  EXPECT_EQ(third.store_prefix, "/worker/attempt_2");
  const World elsewhere =
      detect_world(environment_of(base + "TORCHELASTIC_USE_AGENT_STORE=True LOCKSTEP_INIT_METHOD=tcp://other:6"));
  EXPECT_FALSE(elsewhere.store_is_external);
  expect_refusals(
      {{base + "TORCHELASTIC_USE_AGENT_STORE=True TORCHELASTIC_RESTART_COUNT=x", {"TORCHELASTIC_RESTART_COUNT='x'"}}});
}

TEST(WorldPytorch, PrefersTheLaunchersStoreForRanksOfLockstep) {
  const std::string base = "RANK=1 WORLD_SIZE=2 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 MASTER_ADDR=h MASTER_PORT=5 ";
  const std::string own = base + "TORCHELASTIC_USE_AGENT_STORE=True LOCKSTEP_STORE=";
  const World world = detect_world(environment_of(own + "127.0.0.1:4711"));
  EXPECT_TRUE(world.store_is_external);
  EXPECT_TRUE(world.store_is_own);
  EXPECT_FALSE(detect_world(environment_of(base + "TORCHELASTIC_USE_AGENT_STORE=True")).store_is_own);
  EXPECT_EQ(world.master_addr, "127.0.0.1");
  EXPECT_EQ(world.master_port, 4711);
  EXPECT_NE(world.evidence.find("LOCKSTEP_STORE=127.0.0.1:4711"), std::string::npos) << world.evidence;
  EXPECT_EQ(detect_world(environment_of(own + "[::1]:4711")).master_addr, "::1");
  EXPECT_EQ(detect_world(environment_of(base + "LOCKSTEP_STORE=127.0.0.1:4711")).master_port,
            5);  // of another launcher
  for (const auto* wrong : {"127.0.0.1", ":4711", "127.0.0.1:0", "127.0.0.1:65536", "127.0.0.1:x"}) {
    expect_refusals({{own + wrong, {std::string("LOCKSTEP_STORE='") + wrong + "'", "HOST:PORT"}}});
  }
}

}  // namespace
}  // namespace lockstep
