// A scheduler on a thread of this process, workers, and peers that are neither.
#pragma once

#include <lockstep/base/unique_fd.h>
#include <lockstep/membership/service/server.h>
#include <lockstep/membership/session/worker_session.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace lockstep::test {

/// Runs until its job is over, or this is destroyed.
class RunningServer {
 public:
  explicit RunningServer(membership::ServerOptions options);
  RunningServer(const RunningServer&) = delete;
  RunningServer& operator=(const RunningServer&) = delete;
  ~RunningServer();

  std::uint16_t port() const { return server_.port(); }

  /// Waits for the end of the job.
  membership::Ending wait();

  /// Dies, as by SIGKILL: without a word.
  void kill();

 private:
  membership::Server server_;
  membership::RunEnd end_;
  std::thread thread_;
};

/// Of a scheduler on a free port of this machine, with deadlines that suit tests.
membership::ServerOptions server_of(int workers);

/// Of a worker of it.
membership::WorkerSessionOptions worker_of(std::uint16_t port, const std::string& node_id);

/// All of them, given their ranks at the same time.
std::vector<std::unique_ptr<membership::WorkerSession>> start_workers(
    const std::vector<membership::WorkerSessionOptions>& workers);

/// A connection to a port of this machine that says what a test wants.
class RawPeer {
 public:
  explicit RawPeer(std::uint16_t port);
  void send(const std::string& text) const;
  /// What comes until the other side ends the connection, or the words have come.
  std::string read(const std::string& until = "") const;

 private:
  UniqueFd socket_;
};

/// A whole answer of HTTP to a GET.
std::string get(std::uint16_t port, const std::string& target);

/// What the process logs, from now on.
class LogLines {
 public:
  LogLines();
  LogLines(const LogLines&) = delete;
  LogLines& operator=(const LogLines&) = delete;
  ~LogLines();

  /// All of it so far; waits until it has these words, for a while.
  std::string with(const std::string& words) const;

 private:
  struct Folder;
  std::unique_ptr<Folder> folder_;
};

}  // namespace lockstep::test
