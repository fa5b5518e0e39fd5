// A TCP server that does with each connection what a test wants, however bad its manners.
#pragma once

#include <lockstep/base/unique_fd.h>

#include <cstdint>
#include <functional>
#include <list>
#include <mutex>
#include <string>
#include <thread>

namespace lockstep::test {

class RawServer {
 public:
  /// `serve` runs in a thread for each connection, which is closed when it returns. It must return once a read or write
  /// on the connection fails, which all do when the server ends.
  explicit RawServer(std::function<void(int connection)> serve);
  RawServer(const RawServer&) = delete;
  RawServer& operator=(const RawServer&) = delete;
  ~RawServer();

  std::uint16_t port() const { return port_; }

 private:
  struct Connection {
    UniqueFd fd;
    std::thread thread;
  };

  void accept_all();

  std::function<void(int)> serve_;
  UniqueFd socket_;
  std::uint16_t port_ = 0;
  std::mutex mutex_;
  std::list<Connection> connections_;
  bool ending_ = false;
  std::thread acceptor_;
};

/// One read of what is there; empty at the end of the connection.
std::string read_some(int connection);

/// All of the text; false when the connection fails.
bool write_all(int connection, const std::string& text);

/// Takes all that comes and says nothing.
void stay_silent(int connection);

/// A connection to 127.0.0.1; empty when nobody listens.
UniqueFd connect_to(std::uint16_t port);

}  // namespace lockstep::test
