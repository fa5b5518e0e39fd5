#include "cli/elastic_nodes.h"

#include "cli/two_nodes.h"
#include "support/port.h"

#include <lockstep/base/text.h>

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <thread>
#include <utility>

namespace lockstep::test {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::chrono::seconds kElasticLimit(120);

Words command_of(Words flags, const Words& program) {
  // Both streams in the order of writing, through the shell: a child has one pipe for each.
  Words command = {"/bin/sh", "-c", "exec \"$@\" 2>&1", "sh", LOCKSTEP_BINARY, "run"};
  command.insert(command.end(), flags.begin(), flags.end());
  command.insert(command.end(), program.begin(), program.end());
  return command;
}

Words operator+(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

Child start(const Words& command) {
  ChildOptions options;
  options.arguments = command;
  options.environment = plain_environment();
  options.out = ChildStream::pipe;
  return Child(options);
}

int count(const std::string& text, const std::string& words) {
  int found = 0;
  for (auto at = text.find(words); at != std::string::npos; at = text.find(words, at + words.size())) ++found;
  return found;
}

}  // namespace

Rendezvous::Rendezvous(std::string conf) : port_(free_port()), conf_(std::move(conf)) {}

Rendezvous Rendezvous::at(const std::string& port, std::string conf) {
  Rendezvous rendezvous(std::move(conf));
  rendezvous.port_ = port;
  return rendezvous;
}

Words Rendezvous::flags() const {
  Words flags = {"--rdzv_backend=c10d", "--rdzv_endpoint=127.0.0.1:" + port_};
  if (!conf_.empty()) flags.push_back("--rdzv_conf=" + conf_);
  return flags;
}

Agent::Agent(const Words& command) : child_(start(command)) {}

Agent::Agent(const Rendezvous& rendezvous, Words flags, const Words& actions, const std::string& program)
    : Agent(command_of(rendezvous.flags() + flags, Words{program} + actions)) {}

Agent::Agent(Words flags, const Words& actions)
    : Agent(command_of(std::move(flags), Words{LOCKSTEP_RANK_PROGRAM} + actions)) {}

Agent Agent::of_program(const Rendezvous& rendezvous, Words flags, Words program) {
  return Agent(command_of(rendezvous.flags() + flags, program));
}

Agent Agent::on_host(int host, Words flags, const Words& actions) {
  return Agent(TwoHosts::on(host, command_of(std::move(flags), Words{LOCKSTEP_RANK_PROGRAM} + actions)));
}
Agent Agent::of_program(Words flags, const Words& program) { return Agent(command_of(std::move(flags), program)); }

Agent Agent::of_command(Words command) {
  Words whole = {"/bin/sh", "-c", "exec \"$@\" 2>&1", "sh"};
  whole.insert(whole.end(), command.begin(), command.end());
  return Agent(whole);
}

pid_t Agent::wait_for_stopped_rank() const {
  const auto stopped = "T " + std::to_string(child_.pid()) + " ";  // after the name: state, parent
  const auto deadline = Clock::now() + kElasticLimit / 2;
  for (; Clock::now() < deadline; std::this_thread::sleep_for(milliseconds(20))) {
    for (const auto& process : std::filesystem::directory_iterator("/proc")) {
      const auto number = parse_integer(process.path().filename().string());
      if (!number) continue;
      const auto stat = read_file(process.path() / "stat");
      const auto name_end = stat.rfind(") ");
      if (name_end != std::string::npos && stat.compare(name_end + 2, stopped.size(), stopped) == 0) {
        return static_cast<pid_t>(*number);
      }
    }
  }
  return 0;
}

bool Agent::read_some(milliseconds limit) {
  pollfd watched{child_.out().get(), POLLIN, 0};
  if (::poll(&watched, 1, static_cast<int>(limit.count())) != 1) return false;
  std::array<char, 4096> buffer{};
  const ssize_t size = ::read(child_.out().get(), buffer.data(), buffer.size());
  if (size <= 0) return false;
  said_.append(buffer.data(), static_cast<std::size_t>(size));
  return true;
}

bool Agent::says(const std::string& words, int times) {
  while (count(said_, words) < times) {
    if (!read_some(kElasticLimit)) return false;
  }
  return true;
}

void Agent::kill(int signal) { ::kill(child_.pid(), signal); }

ExitStatus Agent::wait() {
  const auto deadline = Clock::now() + kElasticLimit;
  while (Clock::now() < deadline && read_some(std::chrono::ceil<milliseconds>(deadline - Clock::now()))) {
  }
  const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now());
  if (const auto status = child_.wait_for(std::max(left, milliseconds(0)))) return *status;
  return child_.stop(std::chrono::seconds(1));
}

}  // namespace lockstep::test
