// What somebody on the cable between two hosts reads of a job: everything without encryption, nothing with it.
#include "comm/hierarchy/two_hosts.h"
#include "comm/suite.h"
#include "support/certificates.h"

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace lockstep::test {
namespace {

const std::string kPattern = "THESE WEIGHTS ARE NOBODY ELSE'S ";  // 32 bytes
constexpr std::int64_t kTimes = 40'000;                           // 1.3 MB

/// All frames that come to this host or leave it, from now on.
class Capture {
 public:
  Capture() : socket_(::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, htons(ETH_P_ALL))) {
    if (!socket_) fail(ErrorKind::unsupported, "capture", "{}", std::strerror(errno));
    const int bytes = 32 << 20;
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes);
    thread_ = std::thread([this] { read(); });
  }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;
  ~Capture() { stop(); }

  void stop() {
    ended_ = true;
    if (thread_.joinable()) thread_.join();
  }

  std::size_t bytes() const { return bytes_; }
  std::size_t found(const std::string& text) const {
    std::size_t times = 0;
    for (const auto& frame : frames_) times += frame.find(text) != std::string::npos ? 1 : 0;
    return times;
  }

 private:
  void read() {
    std::vector<char> buffer(1 << 17);
    for (;;) {
      pollfd ready{socket_.get(), POLLIN, 0};
      if (::poll(&ready, 1, 200) <= 0) {
        if (ended_) return;
        continue;
      }
      const auto count = ::recv(socket_.get(), buffer.data(), buffer.size(), 0);
      if (count <= 0) return;
      bytes_ += static_cast<std::size_t>(count);
      frames_.emplace_back(buffer.data(), static_cast<std::size_t>(count));
    }
  }

  UniqueFd socket_;
  std::vector<std::string> frames_;
  std::size_t bytes_ = 0;
  std::atomic<bool> ended_{false};
  std::thread thread_;
};

at::Tensor secret() {
  auto tensor = at::empty({kTimes * static_cast<std::int64_t>(kPattern.size())}, at::kByte);
  auto* bytes = static_cast<char*>(tensor.data_ptr());
  for (std::int64_t i = 0; i < kTimes; ++i) {
    std::memcpy(bytes + i * static_cast<std::int64_t>(kPattern.size()), kPattern.data(), kPattern.size());
  }
  return tensor;
}

class Wire : public testing::Test {
 protected:
  void SetUp() override {
    if (mpirun_size()) GTEST_SKIP() << "makes its own ranks";
    try {
      hosts_.emplace();
    } catch (const Error& error) {
      GTEST_SKIP() << "no network namespaces here: " << error.what();
    }
  }

  Group join(Rank& rank, std::string_view backend, const std::vector<int>& host_of) const {
    World world = rank.world();
    world.rendezvous = Rendezvous::tcp;
    world.master_addr = TwoHosts::address(0);
    world.master_port = 29500;
    world.local_size = 0;
    auto options = RankOptions::test_group_options(backend);
    options.backend = "auto";
    const auto group = connect(world, options);
    EXPECT_EQ(group.backend(), host_of.size() > 2 ? "hierarchy" : "tcp");
    return group;
  }

  std::optional<TwoHosts> hosts_;
};

// One rank on each host, and two on each.
TEST_F(Wire, ShowsTensorsAndKeysOfTheStoreUnlessTheyAreEncrypted) {
  certificates();  // of all ranks
  for (const auto& host_of : {std::vector<int>{0, 1}, std::vector<int>{0, 0, 1, 1}}) {
    for (const bool encrypted : {false, true}) {
      hosts_.emplace();
      run_ranks(static_cast<int>(host_of.size()), {}, [&](Rank& rank) {
        hosts_->enter(host_of[static_cast<std::size_t>(rank.rank())]);
        std::optional<Capture> capture;
        if (rank.rank() == 0) capture.emplace();
        {
          const auto group = join(rank, encrypted ? "tls" : "tcp", host_of);
          const auto all = all_gather(secret(), group);
          EXPECT_TRUE(same(all, secret().expand({group.size(), -1}).reshape({-1}).view(all.sizes())));
          auto numbers = secret();
          broadcast(numbers, group, group.size() - 1);
          barrier(group);
        }
        if (!capture) return;
        capture->stop();
        EXPECT_GT(capture->bytes(), static_cast<std::size_t>(kTimes) * kPattern.size()) << "too little was captured";
        for (const auto& text : {kPattern, std::string("presence/")}) {
          EXPECT_EQ(capture->found(text) > 0, !encrypted) << text;
        }
      });
    }
  }
}

TEST_F(Wire, ARankThatDiesIsNamedOnTheOtherHost) {
  certificates();
  const std::vector<int> host_of = {0, 1};
  const auto outcomes = rank_outcomes(2, {}, [&](Rank& rank) {
    hosts_->enter(rank.rank());
    const auto group = join(rank, "tls", host_of).unchecked();
    barrier(group);
    if (rank.rank() == 1) rank.kill_self();
    auto tensor = at::ones({5'000'000});
    const auto error = error_of([&] { all_reduce(tensor, group); });
    EXPECT_EQ(error.kind(), ErrorKind::peer_lost);
    expect_words(error, {"rank 1 (pid"});
  });
  EXPECT_TRUE(outcomes[0].ok()) << describe(outcomes[0]);
}

TEST_F(Wire, AHostThatVanishesIsNoticed) {
  certificates();
  const std::vector<int> host_of = {0, 1};
  for (const bool waits : {true, false}) {
    hosts_.emplace();
    run_ranks(2, {}, [&](Rank& rank) {
      ::setenv("LOCKSTEP_HOST_TIMEOUT_S", "3", 1);
      hosts_->enter(rank.rank());
      const auto group = join(rank, "tls", host_of).unchecked();
      barrier(group);
      if (rank.rank() == 1) TwoHosts::unplug();
      auto tensor = at::ones({1'000'000});
      const auto error = error_of([&] { waits ? receive(tensor, group, 1 - rank.rank()) : all_reduce(tensor, group); });
      EXPECT_EQ(error.kind(), ErrorKind::peer_lost) << error.what();
      if (rank.rank() == 0) expect_words(error, {"rank 1 (pid"});
    });
  }
}

}  // namespace
}  // namespace lockstep::test
