#include "membership/running_server.h"

#include "support/read_file.h"

#include <lockstep/base/log.h>
#include <lockstep/base/temporary_folder.h>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <boost/asio/ssl/context.hpp>
#include <future>

namespace lockstep::test {

using namespace std::chrono_literals;

RunningServer::RunningServer(membership::ServerOptions options)
    : server_(std::move(options)), thread_([this] { end_ = server_.run(); }) {}

RunningServer::~RunningServer() { kill(); }

membership::Ending RunningServer::wait() {
  thread_.join();
  return end_.ending;
}

void RunningServer::kill() {
  server_.stop();
  if (thread_.joinable()) thread_.join();
}

membership::ServerOptions server_of(int workers) {
  membership::ServerOptions options;
  options.workers = workers;
  return options;
}

membership::WorkerSessionOptions worker_of(std::uint16_t port, const std::string& node_id) {
  membership::WorkerSessionOptions options;
  options.host = "127.0.0.1";
  options.port = port;
  options.node_id = node_id;
  options.host_name = "here";
  options.machine = "machine";
  options.start_timeout = 60s;
  options.heartbeat = 100ms;
  return options;
}

std::vector<std::unique_ptr<membership::WorkerSession>> start_workers(
    const std::vector<membership::WorkerSessionOptions>& workers) {
  std::vector<std::future<std::unique_ptr<membership::WorkerSession>>> coming;
  coming.reserve(workers.size());
  for (const auto& options : workers) {
    coming.push_back(
        std::async(std::launch::async, [&] { return std::make_unique<membership::WorkerSession>(options); }));
  }
  std::vector<std::unique_ptr<membership::WorkerSession>> sessions;
  sessions.reserve(workers.size());
  for (auto& one : coming) sessions.push_back(one.get());
  return sessions;
}

RawPeer::RawPeer(std::uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::connect(socket_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  const timeval limit{60, 0};
  ::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
}

void RawPeer::send(const std::string& text) const {
  EXPECT_EQ(::send(socket_.get(), text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
}

std::string RawPeer::read(const std::string& until) const {
  std::string text;
  std::array<char, 4096> buffer{};
  while (until.empty() || text.find(until) == std::string::npos) {
    const auto count = ::recv(socket_.get(), buffer.data(), buffer.size(), 0);
    if (count <= 0) break;
    text.append(buffer.data(), static_cast<std::size_t>(count));
  }
  return text;
}

std::string get(std::uint16_t port, const std::string& target) {
  const RawPeer peer(port);
  peer.send(fmt::format("GET {} HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n", target));
  return peer.read();
}

struct LogLines::Folder {
  TemporaryFolder folder{"lockstep-scheduler-log"};
  std::filesystem::path file() const { return folder.path() / "log"; }
};

LogLines::LogLines() : folder_(std::make_unique<Folder>()) {
  LogOptions options;
  options.console = false;
  options.file = folder_->file();
  start_logging(options);
}

LogLines::~LogLines() { stop_logging(); }

std::string LogLines::with(const std::string& words) const {
  const auto deadline = std::chrono::steady_clock::now() + 60s;
  for (;;) {
    std::string text = read_file(folder_->file());
    if (text.find(words) != std::string::npos || std::chrono::steady_clock::now() > deadline) return text;
    std::this_thread::sleep_for(10ms);
  }
}

}  // namespace lockstep::test
