// Fork with a pipe for the port; the kernel's numbers from /proc and TCP_INFO.
#include "service_process.h"

#include <fmt/format.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>

namespace lockstep::bench {

ServiceProcess start_service(const std::function<void(const ReportPort&)>& serve) {
  int ends[2];
  if (::pipe(ends) != 0) throw std::runtime_error("no pipe");
  ServiceProcess service;
  service.pid = ::fork();
  if (service.pid < 0) throw std::runtime_error("no process for the service");
  if (service.pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    try {
      serve([&](std::uint16_t port) {
        if (::write(ends[1], &port, sizeof port) != sizeof port) std::_Exit(1);
      });
    } catch (const std::exception& error) {
      std::fprintf(stderr, "the service: %s\n", error.what());
    }
    std::_Exit(1);
  }
  ::close(ends[1]);
  const bool started = ::read(ends[0], &service.port, sizeof service.port) == sizeof service.port;
  ::close(ends[0]);
  if (!started) throw std::runtime_error("the service has not started");
  return service;
}

void end_service(const ServiceProcess& service) {
  ::kill(service.pid, SIGKILL);
  ::waitpid(service.pid, nullptr, 0);
}

double memory_mb(pid_t pid, std::string_view line) {
  std::ifstream status(fmt::format("/proc/{}/status", pid));
  for (std::string text; std::getline(status, text);) {
    if (text.starts_with(line)) return std::stod(text.substr(line.size())) / 1024;
  }
  return 0;
}

double cpu_seconds(pid_t pid) {
  std::ifstream stat(fmt::format("/proc/{}/stat", pid));
  std::string line;
  std::getline(stat, line);
  std::istringstream fields(line.substr(line.rfind(')') + 1));
  std::string word;
  for (int i = 0; i < 11; ++i) fields >> word;
  double user = 0;
  double system = 0;
  fields >> user >> system;
  return (user + system) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

Traffic traffic_with(std::uint16_t port, int descriptors) {
  Traffic traffic;
  for (int fd = 0; fd < descriptors; ++fd) {
    sockaddr_in6 peer{};  // the port is at the same place in addresses of IPv4
    socklen_t size = sizeof peer;
    tcp_info info{};
    socklen_t info_size = sizeof info;
    if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) != 0 || ntohs(peer.sin6_port) != port ||
        ::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &info_size) != 0) {
      continue;
    }
    traffic.bytes_to_service += info.tcpi_bytes_acked;
    traffic.bytes_from_service += info.tcpi_bytes_received;
    ++traffic.connections;
  }
  return traffic;
}

int allow_many_descriptors() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  return static_cast<int>(std::min<rlim_t>(limit.rlim_cur, 1'000'000));
}

}  // namespace lockstep::bench
