// Probes of interfaces, names and ports.
#include <lockstep/base/detached_call.h>
#include <lockstep/base/text.h>
#include <lockstep/base/unique_fd.h>
#include <lockstep/doctor/probe.h>
#include <lockstep/world/host_addresses.h>

#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <fstream>
#include <future>
#include <sstream>
#include <system_error>
#include <utility>

namespace lockstep::doctor {

std::vector<Interface> probe_interfaces() {
  std::vector<Interface> found;
  for (auto& [name, address, loopback] : own_interfaces()) {
    const bool link_local = address.starts_with("fe80") || address.starts_with("169.254.");
    if (!address.empty() && !link_local) found.push_back({std::move(name), std::move(address), loopback});
  }
  return found;
}

Name probe_name(const std::string& name, const WaitLimit& wait_limit) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  auto addresses = call_detached([name] { return resolve(name); });  // the system's resolver cannot be interrupted
  Name found{name};
  do {
    found.answered = addresses.wait_for(wait_limit.slice()) == std::future_status::ready;
  } while (!found.answered && !wait_limit.over());
  if (found.answered) found.addresses = addresses.get();
  found.milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin).count();
  return found;
}

namespace {

// Binds the port as the store does: all addresses, IPv6 with IPv4 if there is IPv6. Returns 0 or errno.
int bind_for_a_moment(std::uint16_t number) {
  const int on = 1;
  sockaddr_in6 six{};
  six.sin6_family = AF_INET6;
  six.sin6_port = htons(number);
  sockaddr_in four{};
  four.sin_family = AF_INET;
  four.sin_port = htons(number);
  UniqueFd socket(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const bool has_six = static_cast<bool>(socket);
  if (!has_six) socket.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket) return errno;
  // Ignores connections of an earlier job in TIME_WAIT.
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const auto* address = has_six ? reinterpret_cast<const sockaddr*>(&six) : reinterpret_cast<const sockaddr*>(&four);
  // Does not listen, because another rank may already try to connect.
  return ::bind(socket.get(), address, has_six ? sizeof six : sizeof four) == 0 ? 0 : errno;
}

// The inode of the socket that listens on a port, from a kernel table such as /proc/net/tcp.
std::string inode_of_listener(const char* table, std::uint16_t number) {
  constexpr auto kListens = "0A";
  const auto end = fmt::format(":{:04X}", number);
  std::ifstream lines(table);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    std::string slot, local, remote, state, skipped, inode;
    fields >> slot >> local >> remote >> state;
    for (int i = 0; i < 5; ++i) fields >> skipped;
    if (fields >> inode && state == kListens && local.ends_with(end)) return inode;
  }
  return "";
}

bool holds(const std::filesystem::path& process, const std::string& link) {
  std::error_code error;  // processes may end during the search
  for (std::filesystem::directory_iterator entry(process / "fd", error), end; entry != end; entry.increment(error)) {
    if (std::filesystem::read_symlink(entry->path(), error) == link) return true;
  }
  return false;
}

// The process that holds the port: "python3 (pid 4711)". Processes of other users cannot be identified.
std::string holder_of(std::uint16_t number) {
  auto inode = inode_of_listener("/proc/net/tcp", number);
  if (inode.empty()) inode = inode_of_listener("/proc/net/tcp6", number);
  if (inode.empty()) return "another program";
  std::error_code error;
  for (std::filesystem::directory_iterator entry("/proc", error), end; entry != end; entry.increment(error)) {
    const auto pid = entry->path().filename().string();
    if (!parse_integer(pid) || !holds(entry->path(), fmt::format("socket:[{}]", inode))) continue;
    std::string program;
    std::getline(std::ifstream(entry->path() / "comm"), program);
    return fmt::format("{} (pid {})", program, pid);
  }
  return "a program that this user may not inspect (another user's, or outside this container)";
}

}  // namespace

Port probe_port(std::uint16_t number) {
  const int error = bind_for_a_moment(number);
  if (error == 0) return {number};
  if (error == EADDRINUSE) return {number, "taken by " + holder_of(number)};
  return {number, std::generic_category().message(error)};
}

}  // namespace lockstep::doctor
