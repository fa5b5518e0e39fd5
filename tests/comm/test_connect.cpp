// Connecting: ports and hosts that are wrong, options, variables and files.
#include <lockstep/base/temporary_folder.h>
#include <lockstep/base/unique_fd.h>
#include <lockstep/comm/meet/addresses.h>

#include "comm/connecting.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>

namespace lockstep::test {
namespace {

using namespace std::chrono_literals;

// connect() starts threads, and the test must have none: each call of it is in a process of its own.
Error error_of_connect(const World& world, const GroupOptions& options, const Environment& environment = {}) {
  Error error(ErrorKind::invalid_argument, "test", "none");
  const TemporaryFolder folder;
  const auto outcomes = fork_outcomes(1, {.environment = environment}, [&](int) {
    const auto seen = error_of([&] { connect(world, options); });
    std::printf("%s|%s", std::string(name(seen.kind())).c_str(), seen.what());
  });
  EXPECT_TRUE(outcomes[0].ok()) << describe(outcomes[0]);
  const auto& text = outcomes[0].output;
  const auto bar = text.find('|');
  for (const auto kind : {ErrorKind::invalid_argument, ErrorKind::environment, ErrorKind::io, ErrorKind::timeout,
                          ErrorKind::peer_lost, ErrorKind::unsupported}) {
    // Warnings of c10d may stand before it.
    if (text.substr(0, bar).ends_with(name(kind))) return Error(kind, "seen", text.substr(bar + 1));
  }
  ADD_FAILURE() << text;
  return error;
}

// A listening socket, and its port.
std::pair<UniqueFd, std::uint16_t> taken_port() {
  UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  socklen_t length = sizeof(address);
  auto* raw = reinterpret_cast<sockaddr*>(&address);
  EXPECT_EQ(::bind(socket.get(), raw, length), 0);
  EXPECT_EQ(::listen(socket.get(), 8), 0);
  EXPECT_EQ(::getsockname(socket.get(), raw, &length), 0);
  return {std::move(socket), ntohs(address.sin_port)};
}

TEST(Connect, MissingRankZeroIsNamed) {
  const TemporaryFolder folder;
  auto error = error_of_connect(world_at(folder.path() / "store", 1, 2), impatient());
  EXPECT_EQ(error.kind(), ErrorKind::timeout);
  expect_words(error, {"rank 0"});

  World world = world_at({}, 1, 2);
  world.rendezvous = Rendezvous::tcp;
  world.master_addr = "127.0.0.1";
  world.master_port = 1;  // nobody listens there
  error = error_of_connect(world, impatient());
  EXPECT_EQ(error.kind(), ErrorKind::timeout);
  expect_words(error, {"127.0.0.1:1", "Rank 0", "MASTER_ADDR"});
}

TEST(Connect, ABackendForCudaWithoutADeviceIsOneClearError) {
  const auto refused = [](const GroupOptions& options, ErrorKind kind, const std::vector<std::string>& words) {
    const auto error = error_of_connect(World{}, options, {{"CUDA_VISIBLE_DEVICES", ""}});
    EXPECT_EQ(error.kind(), kind) << error.what();
    expect_words(error, words);
  };
  refused({.backend = "nccl"}, ErrorKind::unsupported,
          {"backend nccl", "no CUDA device", "backend auto and device cpu"});
  refused({.device = "cuda:1"}, ErrorKind::unsupported, {"no CUDA device"});
  refused({.backend = "nccl", .device = "cpu"}, ErrorKind::invalid_argument, {"only CUDA tensors"});
  refused({.device = "gpu"}, ErrorKind::invalid_argument, {"auto, cpu, cuda or cuda:N"});
  refused({.backend = "nccl", .encrypt = true}, ErrorKind::invalid_argument, {"\"nccl\" cannot encrypt"});
}

TEST(Connect, PortInUseIsNamedWithTheMend) {
  const auto [socket, port] = taken_port();
  World world = world_at({}, 0, 2);
  world.rendezvous = Rendezvous::tcp;
  world.master_addr = "127.0.0.1";
  world.master_port = port;
  const auto error = error_of_connect(world, impatient());
  EXPECT_EQ(error.kind(), ErrorKind::io);
  expect_words(error, {"127.0.0.1:" + std::to_string(port), "in use", "MASTER_PORT"});

  // And by the name that the user gave it.
  world.launcher = "nodes";
  const auto of_list = error_of_connect(world, impatient());
  expect_words(of_list, {"in use", "choose a free one with ctrl_port"});
  EXPECT_EQ(of_list.message().find("MASTER_PORT"), std::string::npos) << of_list.message();
  world.launcher = "pytorch";
  world.evidence = "RANK=0 WORLD_SIZE=2 LOCKSTEP_INIT_METHOD=tcp://127.0.0.1:" + std::to_string(port);
  expect_words(error_of_connect(world, impatient()), {"in use", "the port in the URL of the init method"});
}

TEST(Connect, ANameThatDoesNotResolveIsNamed) {
  World world = world_at({}, 0, 2);
  world.rendezvous = Rendezvous::tcp;
  world.master_addr = "no-such-host.invalid";
  world.master_port = 29500;
  for (const int rank : {0, 1}) {
    world.rank = rank;
    const auto error = error_of_connect(world, impatient());
    EXPECT_EQ(error.kind(), ErrorKind::timeout);
    expect_words(error, {"no-such-host.invalid", "does not resolve", "MASTER_ADDR", "2.0 s"});
    EXPECT_EQ(error.message().find("another program"), std::string::npos) << error.message();
  }
}

TEST(Connect, AnAddressOfAnotherHostIsNoPlaceForRankZero) {
  World world = world_at({}, 0, 2);
  world.rendezvous = Rendezvous::tcp;
  world.master_addr = "192.0.2.77";         // of nobody: for documentation
  world.master_port = taken_port().second;  // free again, so that the address is the only mistake
  const auto error = error_of_connect(world, impatient());
  EXPECT_EQ(error.kind(), ErrorKind::io);
  expect_words(error, {"192.0.2.77:" + std::to_string(world.master_port), "no address of this host", "MASTER_ADDR"});
}

TEST(Connect, ProgramThatIsNoStoreIsNotWaitedForWithoutEnd) {
  const auto [socket, port] = taken_port();  // accepts, and never answers
  World world = world_at({}, 1, 2);
  world.rendezvous = Rendezvous::tcp;
  world.master_addr = "127.0.0.1";
  world.master_port = port;
  expect_words(error_of_connect(world, impatient()), {"store", "rank 0"});
}

TEST(Connect, OptionsAreChecked) {
  const TemporaryFolder folder;
  const auto world = world_at(folder.path() / "store", 0, 1);
  expect_words(error_of_connect(world, impatient("hierarchi")), {"\"hierarchi\"", "did you mean 'hierarchy'"});
  auto options = impatient();
  options.timeout = 0ms;
  expect_words(error_of_connect(world, options), {"timeouts must be positive", "0 ms"});
  expect_words(error_of_connect(world_at(folder.path() / "store", 2, 2), impatient()), {"rank 2 of 2"});
  World alone = world_at({}, 0, 2);
  alone.rendezvous = Rendezvous::alone;
  expect_words(error_of_connect(alone, impatient()), {"2 ranks", "needs a rendezvous"});
  auto error = error_of_connect(world_at(folder.path() / "none" / "store", 0, 2), impatient());
  EXPECT_EQ(error.kind(), ErrorKind::io);
  expect_words(error, {"none", "not a folder"});
}

TEST(Connect, VariablesAreChecked) {
  const TemporaryFolder folder;
  const auto world = world_at(folder.path() / "store", 0, 1);
  const auto refused = [&](const char* variable, const char* value) {
    return error_of_connect(world, impatient(), {{variable, value}});
  };
  EXPECT_EQ(refused("LOCKSTEP_BACKEND", "smh").kind(), ErrorKind::environment);
  expect_words(refused("LOCKSTEP_BACKEND", "smh"), {"LOCKSTEP_BACKEND", "'shm'"});
  expect_words(refused("LOCKSTEP_TIMEOUT_S", "10s"), {"LOCKSTEP_TIMEOUT_S=\"10s\"", "seconds"});
  expect_words(refused("LOCKSTEP_START_TIMEOUT_S", "-1"), {"LOCKSTEP_START_TIMEOUT_S=\"-1\""});
  expect_words(refused("LOCKSTEP_CHECK_COLLECTIVES", "yes"), {"LOCKSTEP_CHECK_COLLECTIVES", "yes"});
}

TEST(Connect, AnInterfaceThatIsNotThereIsAnErrorThatListsThem) {
  const TemporaryFolder folder;
  const auto world = world_at(folder.path() / "store", 0, 2);
  for (const auto* variable : {"LOCKSTEP_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"}) {
    const auto error = error_of_connect(world, impatient(), {{variable, "eth77"}});
    EXPECT_EQ(error.kind(), ErrorKind::environment);
    expect_words(error, {std::string(variable) + "=\"eth77\"", "there are", "lo", "LOCKSTEP_SOCKET_IFNAME"});
  }
}

TEST(Connect, InterfacesAreNamedAsForNccl) {
  const auto interface = [](const Environment& environment) {
    const auto named = detail::named_interface(environment, "127.0.0.1");
    return named ? named->variable + ": " + named->interface : "";
  };
  EXPECT_EQ(interface({}), "");
  EXPECT_EQ(interface({{"NCCL_SOCKET_IFNAME", ""}}), "");
  for (const auto* fits : {"lo", "l", "=lo", "eth77,lo", "=eth77,lo"}) {
    EXPECT_EQ(interface({{"NCCL_SOCKET_IFNAME", fits}}), "NCCL_SOCKET_IFNAME: lo") << fits;
  }
  for (const auto* but : {"^eth77", "^=l"}) {  // the first of all others
    EXPECT_TRUE(interface({{"NCCL_SOCKET_IFNAME", but}}).starts_with("NCCL_SOCKET_IFNAME: ")) << but;
  }
  for (const auto* unfit : {"=l", "^l,e,d,b,v,w,i,p,t,s,n,h,c,f,g,u,x,o,k,m,a,r", "eth77,="}) {
    EXPECT_THROW(interface({{"NCCL_SOCKET_IFNAME", unfit}}), Error) << unfit;
  }
  // Ours comes first, whatever the others say.
  EXPECT_EQ(interface({{"LOCKSTEP_SOCKET_IFNAME", "lo"}, {"GLOO_SOCKET_IFNAME", "x"}, {"NCCL_SOCKET_IFNAME", "x"}}),
            "LOCKSTEP_SOCKET_IFNAME: lo");
  EXPECT_EQ(interface({{"GLOO_SOCKET_IFNAME", "lo"}, {"NCCL_SOCKET_IFNAME", "x"}}), "GLOO_SOCKET_IFNAME: lo");
}

TEST(Connect, VariablesOverrideOptions) {
  RankOptions options;
  options.environment = {{"LOCKSTEP_BACKEND", "gloo"},
                         {"LOCKSTEP_TIMEOUT_S", "7.5"},
                         {"LOCKSTEP_CHECK_COLLECTIVES", "0"},
                         {"LOCKSTEP_SOCKET_IFNAME", "lo"}};
  options.group.backend = "shm";
  run_ranks(2, options, [](Rank& rank) {
    EXPECT_EQ(rank.group().backend(), "tcp") << "gloo is a word for it";
    EXPECT_EQ(rank.group().timeout(), 7500ms);
    EXPECT_FALSE(rank.group().checks_arguments());
    barrier(rank.group());
  });
}

TEST(Connect, RanksWithOtherHostIdentitiesAreOnOtherHosts) {
  RankOptions options;
  options.rendezvous = Rendezvous::tcp;
  options.group.backend = "auto";
  run_ranks(4, options, [](Rank& rank) {
    // Ranks 0 and 3 on one host, 1 and 2 on another.
    const bool first = rank.rank() == 0 || rank.rank() == 3;
    ::setenv("LOCKSTEP_HOST_ID", first ? "alpha" : "beta", 1);
    EXPECT_EQ(rank.group().backend(), "hierarchy");
    EXPECT_EQ(rank.group().local_size(), 2);
    EXPECT_EQ(rank.group().local_rank(), rank.rank() >= 2 ? 1 : 0);
    auto tensor = at::ones({1});
    all_reduce(tensor, rank.group());
    EXPECT_EQ(tensor.item<float>(), 4);
  });
}

TEST(Connect, OneRankNeedsNobody) {
  fork_ranks(1, {}, [](int) {
    const auto group = connect(World{});
    EXPECT_EQ(group.size(), 1);
    EXPECT_EQ(group.backend(), "self");
    auto tensor = at::ones({2});
    all_reduce(tensor, group);
    EXPECT_TRUE(same(tensor, at::ones({2})));
  });
}

TEST(Connect, AnotherFileThanAStoreIsRefused) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "notes";
  const auto refused = [&](const std::string& content, int rank) {
    std::ofstream(file, std::ios::binary | std::ios::trunc) << content;
    const auto error = error_of_connect(world_at(file, rank, 2), impatient());
    EXPECT_EQ(error.kind(), ErrorKind::io);
    expect_words(error, {"notes", "not a rendezvous file", "remove it"});
    std::ifstream in(file, std::ios::binary);
    EXPECT_EQ(std::string(std::istreambuf_iterator<char>(in), {}), content);
  };
  refused("remember the milk\n", 0);
  refused("remember the milk\n", 1);
  refused(std::string("\x01\0\0\0a\x05\0\0\0torn", 13), 0);  // the value lacks a byte
  const auto folder_error = error_of_connect(world_at(folder.path(), 0, 2), impatient());
  EXPECT_EQ(folder_error.kind(), ErrorKind::io);
}

TEST(Connect, ProgramsSayWhereToMeetAndWhoTheyAre) {
  const TemporaryFolder folder;
  const auto url = "file://" + (folder.path() / "meet").string();
  fork_ranks(2, {}, [&](int rank) {
    const auto group = init(InitMethod{url, rank, 2}, RankOptions::test_group_options("tcp"));
    EXPECT_EQ(group.rank(), rank);
    EXPECT_EQ(group.local_rank(), rank);
    barrier(group);
  });
  const auto taken = taken_port();
  fork_ranks(1, {}, [&](int) {
    const auto place = "127.0.0.1:" + std::to_string(taken.second);
    expect_words(error_of([&] { init(InitMethod{"tcp://" + place, 0, 2}, impatient()); }), {place, "in use"});
  });
}

}  // namespace
}  // namespace lockstep::test
