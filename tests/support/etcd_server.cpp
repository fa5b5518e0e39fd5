#include "support/etcd_server.h"

#include <lockstep/base/error.h>
#include <lockstep/base/text.h>

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <iterator>
#include <thread>

#include "support/memory_folder.h"
#include "support/port.h"

namespace lockstep::test {
namespace {

constexpr std::chrono::seconds kEtcdLimit(180);

std::string read_log(const std::filesystem::path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

std::optional<std::string> EtcdServer::obstacle() {
  for (const char* folder : {"/usr/bin", "/usr/local/bin"}) {
    if (::access((std::string(folder) + "/etcd").c_str(), X_OK) == 0) return std::nullopt;
  }
  return "there is no etcd here (Debian: etcd-server)";
}

EtcdServer::EtcdServer(Options options) : options_(std::move(options)), folder_("lockstep-etcd", memory_folder()) {
  for (int member = 0; member < options_.members; ++member) {
    members_.push_back({free_port(), free_port(), std::nullopt});
  }
  for (int member = 0; member < options_.members; ++member) start(member);
  for (int member = 0; member < options_.members; ++member) wait_until_ready(member);
}

std::filesystem::path EtcdServer::log_of(int member) const { return folder_.path() / fmt::format("{}.log", member); }

std::string EtcdServer::endpoint(int member) const {
  return fmt::format("{}:{}", options_.host, members_.at(static_cast<std::size_t>(member)).client_port);
}

std::uint16_t EtcdServer::port(int member) const {
  return static_cast<std::uint16_t>(*parse_integer(members_.at(static_cast<std::size_t>(member)).client_port));
}

std::string EtcdServer::endpoints() const {
  std::string text = endpoint(0);
  for (int member = 1; member < options_.members; ++member) text.append(",").append(endpoint(member));
  return text;
}

void EtcdServer::kill(int member) {
  auto& process = members_.at(static_cast<std::size_t>(member)).process;
  process->signal_group(SIGKILL);
  process->wait_for(kEtcdLimit);
  process.reset();
}

void EtcdServer::start(int member) {
  const auto peer = [this](const Member& of) { return fmt::format("http://{}:{}", options_.host, of.peer_port); };
  std::string cluster;
  for (std::size_t i = 0; i < members_.size(); ++i) {
    cluster += fmt::format("{}m{}={}", i == 0 ? "" : ",", i, peer(members_[i]));
  }
  Member& started = members_.at(static_cast<std::size_t>(member));
  const std::string client = fmt::format("{}://{}", options_.scheme, endpoint(member));
  const std::string folder = (folder_.path() / std::to_string(member)).string();
  ChildOptions child;
  child.arguments = options_.prefix;
  // Heartbeats that suit members on one machine: an election takes no second.
  child.arguments.insert(child.arguments.end(), {"etcd",
                                                 "--name",
                                                 fmt::format("m{}", member),
                                                 "--data-dir",
                                                 folder,
                                                 "--listen-client-urls",
                                                 client,
                                                 "--advertise-client-urls",
                                                 client,
                                                 "--listen-peer-urls",
                                                 peer(started),
                                                 "--initial-advertise-peer-urls",
                                                 peer(started),
                                                 "--initial-cluster",
                                                 cluster,
                                                 "--heartbeat-interval",
                                                 "20",
                                                 "--election-timeout",
                                                 "200",
                                                 "--logger",
                                                 "zap",
                                                 "--log-outputs",
                                                 log_of(member).string()});
  child.arguments.insert(child.arguments.end(), options_.arguments.begin(), options_.arguments.end());
  child.out = child.err = ChildStream::discard;
  started.process.emplace(child);
}

void EtcdServer::wait_until_ready(int member) {
  const auto deadline = std::chrono::steady_clock::now() + kEtcdLimit;
  Member& waited = members_.at(static_cast<std::size_t>(member));
  const auto lines = [&] { return read_log(log_of(member)); };
  const auto ready = [&] {
    const std::string log = lines();
    const auto begin = log.rfind("\"starting an etcd server\"");
    return begin != std::string::npos && log.find("\"serving client traffic", begin) != std::string::npos;
  };
  while (!ready()) {
    if (waited.process->poll() || std::chrono::steady_clock::now() > deadline) {
      fail(ErrorKind::timeout, "test", "etcd does not get ready:\n{}", lines());
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

}  // namespace lockstep::test
