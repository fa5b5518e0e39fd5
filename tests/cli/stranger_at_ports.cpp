#include "cli/stranger_at_ports.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <vector>

#include "support/read_file.h"

namespace lockstep::test {
namespace {

constexpr auto kMark = "LOCKSTEP_TEST_STRANGER";

struct Listener {
  std::string socket;  ///< "socket:[4711]"
  std::string address;
  std::uint16_t port = 0;
  bool at_loopback = false;
};

/// "0100007F": four bytes in the machine's order.
std::string address_in(const std::string& hex) {
  if (hex.size() != 8) return "127.0.0.1";  // IPv6: of those only the ones that take IPv4 as well are tried
  in_addr address{static_cast<in_addr_t>(std::stoul(hex, nullptr, 16))};
  char text[INET_ADDRSTRLEN] = {};
  ::inet_ntop(AF_INET, &address, text, sizeof text);
  return std::string(text) == "0.0.0.0" ? "127.0.0.1" : text;
}

bool is_loopback(const std::string& hex) {
  return hex.ends_with("7F") || hex == "00000000000000000000000001000000";  // of IPv4, and ::1
}

/// What listens on this host.
std::vector<Listener> listeners() {
  std::vector<Listener> found;
  for (const auto* file : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream table(file);
    std::string line;
    std::getline(table, line);
    while (std::getline(table, line)) {
      std::istringstream words(line);
      std::string number;
      std::string local;
      std::string remote;
      std::string state;
      std::string other;
      std::string inode;
      words >> number >> local >> remote >> state >> other >> other >> other >> other >> other >> inode;
      if (state != "0A") continue;
      const auto colon = local.find(':');
      found.push_back({"socket:[" + inode + "]", address_in(local.substr(0, colon)),
                       static_cast<std::uint16_t>(std::stoul(local.substr(colon + 1), nullptr, 16)),
                       is_loopback(local.substr(0, colon))});
    }
  }
  return found;
}

UniqueFd say_one_byte(const Listener& listener) {
  UniqueFd connection(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(listener.port);
  ::inet_pton(AF_INET, listener.address.c_str(), &address.sin_addr);
  if (::connect(connection.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) return UniqueFd();
  const char byte = 0;
  ::send(connection.get(), &byte, 1, MSG_NOSIGNAL);
  return connection;
}

/// The sockets that a process has open.
std::set<std::string> sockets_of(const std::filesystem::path& process) {
  std::set<std::string> sockets;
  std::error_code gone;
  for (std::filesystem::directory_iterator entry(process / "fd", gone), end; entry != end; entry.increment(gone)) {
    const auto target = std::filesystem::read_symlink(entry->path(), gone).string();
    if (target.starts_with("socket:")) sockets.insert(target);
  }
  return sockets;
}

std::string first_line_of(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

}  // namespace

StrangerAtPorts::StrangerAtPorts(std::string only, Visit visit)
    : only_(std::move(only)),
      visit_(visit),
      mark_{{kMark, std::to_string(::getpid()) + "-" +
                        std::to_string(std::chrono::steady_clock::now().time_since_epoch().count())}},
      thread_([this](const std::stop_token& stop) { look(stop); }) {}

StrangerAtPorts::~StrangerAtPorts() = default;

std::map<std::string, int> StrangerAtPorts::visited() const {
  const std::lock_guard lock(mutex_);
  return visited_;
}

std::set<std::string> StrangerAtPorts::open_to_others() const {
  const std::lock_guard lock(mutex_);
  return open_to_others_;
}

void StrangerAtPorts::look(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    visit_ports();
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

void StrangerAtPorts::visit_ports() {
  std::vector<Listener> strange;
  for (auto& listener : listeners()) {
    constexpr int kMostLooks = 100;  // those of other programs are not looked at without end
    if (connections_.contains(listener.socket) || ++looks_[listener.socket] > kMostLooks) continue;
    strange.push_back(std::move(listener));
  }
  if (strange.empty()) return;
  const auto mark = std::string(kMark) + "=" + mark_.at(kMark);
  std::error_code gone;
  for (std::filesystem::directory_iterator entry("/proc", gone), end; entry != end; entry.increment(gone)) {
    const auto& process = entry->path();
    if (!std::isdigit(static_cast<unsigned char>(process.filename().native().front()))) continue;
    const auto variables = read_file(process / "environ");
    if (variables.find(mark) == std::string::npos) continue;
    const auto name = first_line_of(process / "comm");
    if (!only_.empty() && name != only_) continue;
    const auto sockets = sockets_of(process);
    for (const auto& listener : strange) {
      if (!sockets.contains(listener.socket) || connections_.contains(listener.socket)) continue;
      auto connection = visit_ == Visit::speak ? say_one_byte(listener) : UniqueFd();
      if (visit_ == Visit::speak && !connection) continue;
      connections_[listener.socket] = std::move(connection);
      const std::lock_guard lock(mutex_);
      ++visited_[name];
      if (!listener.at_loopback) open_to_others_.insert(name);
    }
  }
}

}  // namespace lockstep::test
