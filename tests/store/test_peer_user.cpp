// Users of one host: a store without a secret is for one of them.
#include <lockstep/base/error.h>
#include <lockstep/base/unique_fd.h>
#include <lockstep/store/client.h>
#include <lockstep/store/server.h>
#include <lockstep/store/sockets.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "store/stranger.h"

namespace lockstep::test {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

constexpr uid_t kNobody = 65534;

store::StoreServerOptions at_loopback(const std::string& secret = "") {
  store::StoreServerOptions options;
  options.addresses = {"127.0.0.1"};
  options.secret = secret;
  return options;
}

/// What a client hears; "welcome" if that is nothing bad.
std::string try_to_enter(std::uint16_t port, const std::string& secret) {
  try {
    store::Client("127.0.0.1", port, {secret}, std::chrono::steady_clock::now() + 30s);
  } catch (const std::exception& error) {
    return error.what();
  }
  return "welcome";
}

std::string read_all(int fd) {
  std::string text;
  char buffer[1024];
  for (ssize_t count = 0; (count = ::read(fd, buffer, sizeof buffer)) > 0;)
    text.append(buffer, static_cast<std::size_t>(count));
  return text;
}

/// A process of another user that does `act` until its input ends; what it says is read from `out`.
class ProcessOfAnother {
 public:
  explicit ProcessOfAnother(const std::function<std::string()>& act) {
    Pipe in = make_pipe();
    Pipe out = make_pipe();
    pid_ = ::fork();
    if (pid_ == 0) {
      in.write_end.reset();
      if (::setuid(kNobody) != 0) ::_exit(1);
      const auto said = act();
      [[maybe_unused]] const auto written = ::write(out.write_end.get(), said.data(), said.size());
      out.write_end.reset();
      read_all(in.read_end.get());
      ::_exit(0);
    }
    in_ = std::move(in.write_end);
    out_ = std::move(out.read_end);
  }
  ~ProcessOfAnother() {
    in_.reset();
    ::waitpid(pid_, nullptr, 0);
  }
  ProcessOfAnother(const ProcessOfAnother&) = delete;
  ProcessOfAnother& operator=(const ProcessOfAnother&) = delete;

  std::string said() const { return read_all(out_.get()); }

 private:
  pid_t pid_ = -1;
  UniqueFd in_;
  UniqueFd out_;
};

class PeerUser : public testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "another user's processes are started by root";
  }
};

TEST_F(PeerUser, AnotherOneNeedsTheSecret) {
  const store::Server open(at_loopback());
  const store::Server closed(at_loopback("open sesame"));
  EXPECT_EQ(try_to_enter(open.port(), ""), "welcome");
  EXPECT_THAT(ProcessOfAnother([&] { return try_to_enter(open.port(), ""); }).said(),
              HasSubstr("requires the secret of its job, and this process has none"));
  EXPECT_EQ(ProcessOfAnother([&] { return try_to_enter(closed.port(), "open sesame"); }).said(), "welcome");
}

TEST_F(PeerUser, AStoreOfAnotherOneIsNotTrusted) {
  const ProcessOfAnother host([] {
    static const store::Server server(at_loopback());
    return std::to_string(server.port());
  });
  const auto port = static_cast<std::uint16_t>(std::stoi(host.said()));
  EXPECT_THAT(try_to_enter(port, ""), testing::AllOf(HasSubstr("belongs to user 65534, and this process to user 0"),
                                                     HasSubstr("LOCKSTEP_STORE_SECRET")));
}

// The kernel gives what no process has open any more to root.
TEST_F(PeerUser, AnEndThatNobodyHasOpenIsNobodys) {
  const store::Server server(at_loopback());
  auto connection = stranger_says(server.port(), "");
  EXPECT_EQ(store::find_peer_user(connection.get()), 0U);
  Pipe pipe = make_pipe();
  EXPECT_EQ(store::find_peer_user(pipe.read_end.get()), std::nullopt);
}

}  // namespace
}  // namespace lockstep::test
