#include "comm/hierarchy/two_hosts.h"

#include <lockstep/base/error.h>
#include <lockstep/base/process.h>

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sched.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <sstream>
#include <vector>

namespace lockstep::test {
namespace {

constexpr auto kCable = "cable";  // the name of either end: each is alone in its namespace

[[noreturn]] void cannot(const std::string& what) {
  fail(ErrorKind::unsupported, "two_hosts", "{}: {}", what, std::strerror(errno));
}

UniqueFd current_namespace() {
  UniqueFd fd(::open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC));
  if (!fd) cannot("opening /proc/self/ns/net");
  return fd;
}

void enter_namespace(const UniqueFd& fd) {
  if (::setns(fd.get(), CLONE_NEWNET) != 0) cannot("entering a network namespace");
}

// While alive, this process is in another network namespace.
class Inside {
 public:
  explicit Inside(const UniqueFd& fd) : home_(current_namespace()) { enter_namespace(fd); }
  ~Inside() {
    if (::setns(home_.get(), CLONE_NEWNET) != 0) ::_exit(1);  // nothing that follows would mean anything
  }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

 private:
  UniqueFd home_;
};

UniqueFd make_namespace() {
  const Inside stay(current_namespace());  // comes back here at the end
  if (::unshare(CLONE_NEWNET) != 0) cannot("making a network namespace (it takes the right to: CAP_SYS_ADMIN)");
  return current_namespace();
}

void run(const std::vector<std::string>& command) {
  ChildOptions options;
  options.arguments = command;
  options.environment = current_environment();
  (*options.environment)["PATH"] += ":/usr/sbin:/sbin";
  Captured ended;
  try {
    ended = run_and_capture(options, std::chrono::seconds(180));
  } catch (const Error& error) {
    fail(ErrorKind::unsupported, "two_hosts", "{}", error.message());
  }
  if (ended.status.ok()) return;
  fail(ErrorKind::unsupported, "two_hosts", "{}: {} {}", fmt::join(command, " "), describe(ended.status), ended.err);
}

void configure(const UniqueFd& host, const std::string& address) {
  const Inside inside(host);
  run({"ip", "address", "add", address + "/24", "dev", kCable});
  run({"ip", "link", "set", "lo", "up"});
  run({"ip", "link", "set", kCable, "up"});
  run({"tc", "qdisc", "add", "dev", kCable, "root", "tbf", "rate", "400mbit", "burst", "256kb", "latency", "400ms"});
}

}  // namespace

TwoHosts::TwoHosts() : namespaces_{make_namespace(), make_namespace()} {
  {
    const Inside inside(namespaces_[0]);
    run({"ip", "link", "add", kCable, "type", "veth", "peer", "name", kCable, "netns",
         fmt::format("/proc/{}/fd/{}", ::getpid(), namespaces_[1].get())});
  }
  for (const int host : {0, 1}) configure(namespaces_[static_cast<std::size_t>(host)], address(host));
}

void TwoHosts::enter(int host) const { enter_namespace(namespaces_.at(static_cast<std::size_t>(host))); }

std::string TwoHosts::address(int host) { return fmt::format("10.213.0.{}", host + 1); }

void TwoHosts::unplug() { run({"ip", "link", "set", kCable, "down"}); }

Traffic traffic() {
  std::ifstream table("/proc/self/net/dev");
  for (std::string line; std::getline(table, line);) {
    const auto colon = line.find(':');
    if (colon == std::string::npos || line.find(kCable) > colon) continue;
    // Eight numbers about what was received, the first of them bytes, then as many about what was sent.
    std::istringstream numbers(line.substr(colon + 1));
    std::array<std::int64_t, 9> values{};
    for (auto& value : values) numbers >> value;
    return {.sent = values[8], .received = values[0]};
  }
  fail(ErrorKind::io, "two_hosts", "this process is on neither host");
}

}  // namespace lockstep::test
