// A real etcd for one test, on ports of its own in a temporary folder.
#pragma once

#include <lockstep/base/process.h>
#include <lockstep/base/temporary_folder.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::test {

/// One server, or as many members of one cluster. They are children of this process and die with it; their data goes
/// with the folder.
class EtcdServer {
 public:
  struct Options {
    int members = 1;
    std::string host = "127.0.0.1";        ///< address of this machine where clients reach it
    std::vector<std::string> prefix{};     ///< words before each command, e.g. those that enter a namespace
    std::vector<std::string> arguments{};  ///< more for etcd
    std::string scheme = "http";           ///< of the clients' port
  };

  /// Why there can be none here.
  static std::optional<std::string> obstacle();

  EtcdServer() : EtcdServer(Options()) {}
  /// Returns when all members have elected a leader. Error(timeout), with the logs, when they do not.
  explicit EtcdServer(Options options);

  /// "127.0.0.1:1234", with commas between members.
  std::string endpoints() const;
  std::string endpoint(int member) const;
  std::uint16_t port(int member = 0) const;

  /// SIGKILL, as the loss of its host would end it.
  void kill(int member = 0);

  /// Again, with the data and the ports it had.
  void start(int member = 0);

  /// Returns when a member that was started is ready.
  void wait_until_ready(int member = 0);

 private:
  struct Member {
    std::string client_port;
    std::string peer_port;
    std::optional<Child> process;
  };

  std::filesystem::path log_of(int member) const;

  Options options_;
  TemporaryFolder folder_;
  std::vector<Member> members_;
};

}  // namespace lockstep::test
