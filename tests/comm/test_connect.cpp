// Meeting: who is missing, ports that are taken, options and variables that are wrong.
#include <lockstep/base/temporary_folder.h>
#include <lockstep/base/unique_fd.h>
#include <lockstep/comm/bind_address.h>

#include <lockstep/comm/backend_context.h>
#include <lockstep/comm/group.h>
#include <lockstep/comm/open_store.h>
#include <lockstep/comm/rendezvous.h>
#include <lockstep/comm/stores.h>

#include "comm/suite.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>

namespace lockstep::test {
namespace {

using namespace std::chrono_literals;

World world_at(const std::filesystem::path& store, int rank, int size) {
  World world;
  world.rank = rank;
  world.size = size;
  world.meeting = Meeting::file;
  world.store_path = store;
  return world;
}

GroupOptions impatient(std::string_view backend = "gloo") {
  auto options = RankOptions::test_group_options(backend);
  options.start_timeout = 2s;
  return options;
}

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

TEST(Connect, RanksThatNeverComeAreNamed) {
  const TemporaryFolder folder;
  const auto outcomes = fork_outcomes(2, {}, [&](int i) {
    const int rank = i == 0 ? 0 : 2;  // of four
    const auto error = error_of([&] { connect(world_at(folder.path() / "store", rank, 4), impatient()); });
    EXPECT_EQ(error.kind(), ErrorKind::timeout);
    expect_words(error, {"2 of 4 ranks did not come", "rank 1, 3", "2.0 s", "LOCKSTEP_START_TIMEOUT_S"});
  });
  expect_all_ok(outcomes);
}

TEST(Connect, MissingRankIsNamedThroughAStoreThatRankZeroHolds) {
  RankOptions options;
  options.meeting = Meeting::tcp;
  options.group = impatient();
  run_ranks(3, options, [](Rank& rank) {
    if (rank.rank() == 1) return;
    expect_words(error_of([&] { rank.group(); }), {"1 of 3 ranks did not come", "rank 1."});
  });
}

TEST(Connect, MissingRankZeroIsNamed) {
  const TemporaryFolder folder;
  auto error = error_of_connect(world_at(folder.path() / "store", 1, 2), impatient());
  EXPECT_EQ(error.kind(), ErrorKind::timeout);
  expect_words(error, {"rank 0"});

  World world = world_at({}, 1, 2);
  world.meeting = Meeting::tcp;
  world.master_addr = "127.0.0.1";
  world.master_port = 1;  // nobody listens there
  error = error_of_connect(world, impatient());
  EXPECT_EQ(error.kind(), ErrorKind::timeout);
  expect_words(error, {"127.0.0.1:1", "Rank 0", "MASTER_ADDR"});
}

TEST(Connect, MissingRankZeroIsNamedThroughAStoreThatIsThere) {
  RankOptions options;
  options.meeting = Meeting::tcp;
  run_ranks(2, options, [](Rank& rank) {
    barrier(rank.group());
    World of_three = rank.world();  // as ranks 1 and 2, where the launcher holds the store
    of_three.store_is_external = true;
    of_three.store_prefix = "/attempt_1";
    of_three.size = 3;
    of_three.rank = rank.rank() + 1;
    const auto error = error_of([&] { connect(of_three, impatient()); });
    EXPECT_EQ(error.kind(), ErrorKind::timeout);
    expect_words(error, {"1 of 3 ranks did not come", "rank 0."});
    barrier(rank.group());
  });
}

/// Ends the process when it has said where it can be reached, and looks for the others.
class FatalStore : public c10d::PrefixStore {
 public:
  using PrefixStore::PrefixStore;
  bool check(const std::vector<std::string>&) override {
    ::raise(SIGKILL);
    return false;
  }
};

TEST(Connect, ADeathAmongRanksThatConnectOverGlooIsNoticed) {
  constexpr int kDead = 2;
  RankOptions options;
  options.deadline = 30s;
  options.group = RankOptions::test_group_options("gloo");
  options.group.start_timeout = 60s;  // that of whoever does not notice
  options.meeting = Meeting::tcp;
  for (const auto& outcome : rank_outcomes(5, options, [](Rank& rank) {
         if (rank.rank() != kDead) {
           const auto error = error_of([&] { rank.group(); });
           EXPECT_EQ(error.kind(), ErrorKind::peer_lost);
           expect_words(error, {"group \"world\"", "rank 2", "ended"});  // before it connects, or while it does
           return;
         }
         auto store = detail::open_store(rank.world(), 30s);
         detail::meet(*store.store, detail::this_rank(rank.world(), ""), rank.size(), 30s, [] {});
         detail::BackendContext context;
         context.store = c10::make_intrusive<FatalStore>("group/world", store.store);
         context.rank = rank.rank();
         context.size = rank.size();
         context.start_timeout = 30s;
         detail::make_gloo_backend(context);
       })) {
    EXPECT_TRUE(outcome.rank == kDead ? outcome.status.signal == SIGKILL : outcome.ok()) << describe(outcome);
  }
}

/// Shows no address for a while.
class SlowStore : public c10d::PrefixStore {
 public:
  SlowStore(c10::intrusive_ptr<c10d::Store> store, std::chrono::milliseconds delay)
      : PrefixStore("group/world", std::move(store)), delay_(delay) {}
  bool check(const std::vector<std::string>& keys) override {
    if (std::chrono::steady_clock::now() - start_ < delay_) return false;
    return PrefixStore::check(keys);
  }

 private:
  const std::chrono::milliseconds delay_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// Rank 2 never comes. Rank 0 hears that at once, rank 1 only when it is connecting to rank 0, which must be there
/// then.
TEST(Connect, ARankThatHearsOfALossIsThereForThoseThatHearOfItLater) {
  RankOptions options;
  options.deadline = 30s;
  options.meeting = Meeting::tcp;
  for (const auto& outcome : rank_outcomes(3, options, [](Rank& rank) {
         auto store = detail::open_store(rank.world(), 30s);
         detail::meet(*store.store, detail::this_rank(rank.world(), ""), rank.size(), 30s, [] {});
         if (rank.rank() == 2) return;
         const auto start = std::chrono::steady_clock::now();
         detail::BackendContext context;
         context.store = c10::make_intrusive<SlowStore>(store.store, rank.rank() == 0 ? 0ms : 300ms);
         context.rank = rank.rank();
         context.size = rank.size();
         context.start_timeout = 20s;
         const auto silence = rank.rank() == 0 ? 0ms : 400ms;
         context.while_meeting = [start, silence](const std::vector<int>&) {
           if (std::chrono::steady_clock::now() - start < silence) return;
           throw Error(ErrorKind::peer_lost, "test", "rank 2 is lost");
         };
         const auto error = error_of([&] { detail::make_gloo_backend(context); });
         expect_words(error, {"rank 2 is lost"});
         EXPECT_LT(std::chrono::steady_clock::now() - start, 10s);
         std::this_thread::sleep_for(2s);  // rank 0 has the store, and is there to be connected to
       })) {
    EXPECT_TRUE(outcome.ok()) << describe(outcome);
  }
}

/// What each rank that comes is told: how many there are, or an error. They are threads. `ended` came, and no more.
std::vector<std::string> meet_many(int size, const std::set<int>& missing, std::chrono::milliseconds timeout,
                                   std::optional<int> ended = std::nullopt) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  if (ended) store->set(fmt::format("presence/{}", *ended), detail::to_bytes("here"));
  std::vector<std::string> told(static_cast<std::size_t>(size));
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < size; ++rank) {
    if (missing.contains(rank) || rank == ended) continue;
    threads.emplace_back([&, rank] {
      World world = world_at({}, rank, size);
      auto& words = told[static_cast<std::size_t>(rank)];
      try {
        const auto members = *detail::meet(*store, detail::this_rank(world, ""), size, timeout, [] {});
        const auto in_order = [&, next = 0](const auto& info) mutable { return info.rank == next++; };
        words = std::all_of(members.begin(), members.end(), in_order) ? std::to_string(members.size()) : "in no order";
      } catch (const Error& error) {
        words = error.message();
      }
    });
  }
  threads.clear();
  return told;
}

TEST(Connect, ManyRanksAreCollectedInGroups) {
  const auto outcomes = fork_outcomes(1, {}, [](int) {
    for (const int size : {64, 65, 200}) {
      for (const auto& told : meet_many(size, {}, 60s)) EXPECT_EQ(told, std::to_string(size));
    }
    // One in the middle of a group, and one that should collect the others of its group.
    const auto told = meet_many(200, {70, 128}, 3s);
    for (std::size_t rank = 0; rank < told.size(); ++rank) {
      if (rank == 70 || rank == 128) continue;
      EXPECT_NE(told[rank].find("2 of 200 ranks did not come, or ended meanwhile, within 3.0 s: rank 70, 128."),
                std::string::npos)
          << rank << ": " << told[rank];
    }
    // One that announced itself and ended before it collected its group.
    const auto left = meet_many(200, {}, 3s, 128);
    for (std::size_t rank = 0; rank < left.size(); ++rank) {
      if (rank == 128) continue;
      EXPECT_NE(left[rank].find("1 of 200 ranks did not come, or ended meanwhile, within 3.0 s: rank 128."),
                std::string::npos)
          << rank << ": " << left[rank];
    }
  });
  expect_all_ok(outcomes);
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

TEST(Connect, PortInUseIsNamedWithTheMend) {
  const auto [socket, port] = taken_port();
  World world = world_at({}, 0, 2);
  world.meeting = Meeting::tcp;
  world.master_addr = "127.0.0.1";
  world.master_port = port;
  const auto error = error_of_connect(world, impatient());
  EXPECT_EQ(error.kind(), ErrorKind::io);
  expect_words(error, {"127.0.0.1:" + std::to_string(port), "in use", "MASTER_PORT"});
}

TEST(Connect, ANameThatDoesNotResolveIsNamed) {
  World world = world_at({}, 0, 2);
  world.meeting = Meeting::tcp;
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
  world.meeting = Meeting::tcp;
  world.master_addr = "192.0.2.77";  // of nobody: for documentation
  world.master_port = 29500;
  const auto error = error_of_connect(world, impatient());
  EXPECT_EQ(error.kind(), ErrorKind::io);
  expect_words(error, {"192.0.2.77:29500", "no address of this host", "MASTER_ADDR"});
}

TEST(Connect, ProgramThatIsNoStoreIsNotWaitedForWithoutEnd) {
  const auto [socket, port] = taken_port();  // accepts, and never answers
  World world = world_at({}, 1, 2);
  world.meeting = Meeting::tcp;
  world.master_addr = "127.0.0.1";
  world.master_port = port;
  expect_words(error_of_connect(world, impatient()), {"store", "rank 0"});
}

TEST(Connect, OptionsAreChecked) {
  const TemporaryFolder folder;
  const auto world = world_at(folder.path() / "store", 0, 1);
  expect_words(error_of_connect(world, impatient("glo")), {"\"glo\"", "did you mean 'gloo'"});
  auto options = impatient();
  options.timeout = 0ms;
  expect_words(error_of_connect(world, options), {"timeouts must be positive", "0 ms"});
  expect_words(error_of_connect(world_at(folder.path() / "store", 2, 2), impatient()), {"rank 2 of 2"});
  World alone = world_at({}, 0, 2);
  alone.meeting = Meeting::alone;
  expect_words(error_of_connect(alone, impatient()), {"2 ranks", "way to meet"});
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
    EXPECT_EQ(rank.group().backend(), "gloo");
    EXPECT_EQ(rank.group().timeout(), 7500ms);
    EXPECT_FALSE(rank.group().checks_arguments());
    barrier(rank.group());
  });
}

TEST(Connect, RanksWithOtherHostIdentitiesAreOnOtherHosts) {
  RankOptions options;
  options.meeting = Meeting::tcp;
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

// ---- a file that other jobs have used

void meet_in(const std::filesystem::path& file, int size, const std::function<void(const Group&)>& more = nullptr) {
  fork_ranks(size, {}, [&](int rank) {
    const auto group = connect(world_at(file, rank, size), RankOptions::test_group_options("gloo"));
    const auto order = all_gather(at::full({1}, rank, at::kLong), group);
    EXPECT_TRUE(same(order, at::arange(size, at::kLong)));
    if (more) more(group);
  });
}

TEST(Connect, AFileIsRemovedByTheLastToLeave) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "meet";
  meet_in(file, 3);
  EXPECT_FALSE(std::filesystem::exists(file));
}

TEST(Connect, AFileThatAKilledJobLeftIsMetInAgain) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "meet";
  // Some were killed after they had met, and one had left in good order.
  const auto killed = fork_outcomes(3, {}, [&](int rank) {
    const auto group = connect(world_at(file, rank, 3), RankOptions::test_group_options("gloo"));
    barrier(group);
    if (rank != 1) ::kill(::getpid(), SIGKILL);
  });
  EXPECT_EQ(killed[0].status.signal, SIGKILL);
  EXPECT_TRUE(std::filesystem::exists(file));
  // One that was killed while it waited for the others; rank 0 is never there.
  const auto alone = fork_outcomes(1, {}, [&](int) {
    const auto error = error_of([&] { connect(world_at(file, 2, 3), impatient()); });
    EXPECT_EQ(error.kind(), ErrorKind::timeout);
    expect_words(error, {"rank 0 of 3 did not come", "left by another job"});
  });
  expect_all_ok(alone);
  meet_in(file, 3);
  EXPECT_FALSE(std::filesystem::exists(file));
  meet_in(file, 2);
}

TEST(Connect, TheSameProcessesMeetTwiceInAFile) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "meet";
  meet_in(file, 2, [&](const Group& first) {
    const auto again = connect(world_at(file, 1 - first.rank(), 2), RankOptions::test_group_options("gloo"));
    const auto order = all_gather(at::full({1}, first.rank(), at::kLong), again);
    EXPECT_TRUE(same(order, at::arange(1, -1, -1, at::kLong)));
    barrier(first);
  });
}

TEST(Connect, AnotherFileThanAStoreIsRefused) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "notes";
  const auto refused = [&](const std::string& content, int rank) {
    std::ofstream(file, std::ios::binary | std::ios::trunc) << content;
    const auto error = error_of_connect(world_at(file, rank, 2), impatient());
    EXPECT_EQ(error.kind(), ErrorKind::io);
    expect_words(error, {"notes", "not a file in which ranks met", "remove it"});
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
    const auto group = init(InitMethod{url, rank, 2}, RankOptions::test_group_options("gloo"));
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

// ---- one meeting after the other in one store

/// As the ranks of a job whose launcher holds the store.
World of_launcher(const Rank& rank) {
  World world = rank.world();
  world.store_is_external = true;
  world.store_prefix = "/again";
  return world;
}

TEST(Connect, ARankThatComesTooLateWaitsForTheNextMeeting) {
  RankOptions options;
  options.meeting = Meeting::tcp;
  run_ranks(3, options, [](Rank& rank) {
    barrier(rank.group());
    const World world = of_launcher(rank);
    if (rank.rank() != 2) {
      const auto error = error_of([&] { connect(world, impatient()); });
      expect_words(error, {"1 of 3 ranks did not come", "rank 2."});
    }
    barrier(rank.group());
    const auto group = connect(world, rank.options());
    EXPECT_TRUE(same(all_gather(at::full({1}, rank.rank(), at::kLong), group), at::arange(3, at::kLong)));
    barrier(rank.group());
  });
}

// Rank 0 died where it waited, and is there again; the others have waited all the time.
TEST(Connect, RanksThatWaitGoAlongWhenRankZeroBeginsAgain) {
  RankOptions options;
  options.meeting = Meeting::tcp;
  run_ranks(3, options, [](Rank& rank) {
    barrier(rank.group());
    const World world = of_launcher(rank);
    if (rank.rank() == 0) detail::open_store(world, 30s);  // and no more
    barrier(rank.group());
    if (rank.rank() == 0) {
      auto opened = detail::open_store(world, 30s);
      while (detail::absent_ranks(*opened.store, 3) != std::vector<int>{0}) std::this_thread::sleep_for(5ms);
    }
    const auto group = connect(world, rank.options());
    EXPECT_TRUE(same(all_gather(at::full({1}, rank.rank(), at::kLong), group), at::arange(3, at::kLong)));
    barrier(rank.group());
  });
}

// A process of rank 1 said that it is there, ended, and was replaced before all had come.
TEST(Connect, ARosterThatHoldsAnEarlierProcessIsNotBelieved) {
  const auto outcomes = fork_outcomes(1, {}, [](int) {
    const auto store = c10::make_intrusive<c10d::HashStore>();
    const World world = world_at({}, 1, 2);
    const auto ranks = std::vector{detail::this_rank(world_at({}, 0, 2), ""), detail::this_rank(world, "")};
    store->set("outcome", detail::to_bytes(detail::encode(ranks)));
    EXPECT_TRUE(detail::meet(*store, ranks[1], 2, 1s, [] {}));
    EXPECT_FALSE(detail::meet(*store, detail::this_rank(world, ""), 2, 1s, [] {}));
  });
  expect_all_ok(outcomes);
}

TEST(Connect, AStoreThatRankZeroDoesNotLeaveIsNamed) {
  RankOptions options;
  options.meeting = Meeting::tcp;
  run_ranks(2, options, [](Rank& rank) {
    barrier(rank.group());
    if (rank.rank() == 1) {
      const auto error = error_of([&] { connect(rank.world(), impatient()); });
      EXPECT_EQ(error.kind(), ErrorKind::timeout);
      expect_words(error, {"earlier meeting", "rank 0 has not left that within 2.0 s", "last handle"});
    } else {
      expect_words(error_of([&] { connect(rank.world(), impatient()); }), {"in use", "destroy it first"});
    }
    barrier(rank.group());
  });
}

TEST(Connect, StorePrefixesKeepTwoAttemptsApart) {
  RankOptions options;
  options.meeting = Meeting::tcp;
  run_ranks(2, options, [](Rank& rank) {
    barrier(rank.group());
    // The same store again, which is there already, with the ranks the other way round.
    World again = rank.world();
    again.store_is_external = true;
    again.store_prefix = "/attempt_1";
    again.rank = 1 - rank.rank();
    const auto group = connect(again, rank.options());
    const auto order = all_gather(at::full({1}, rank.rank(), at::kLong), group);
    EXPECT_TRUE(same(order, at::arange(1, -1, -1, at::kLong)));
    barrier(rank.group());
  });
}

}  // namespace
}  // namespace lockstep::test
