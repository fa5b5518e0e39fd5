// What a scheduler costs: a process of its own serves many simulated workers, which register at once and then send
// heartbeats. Each has a connection and does what a real one does; one thread plays all of them. Prints one JSON
// object.
#include <lockstep/base/crypto.h>
#include <lockstep/membership/messages.h>
#include <lockstep/membership/service/server.h>
#include <lockstep/net/channel.h>

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

namespace {

namespace asio = boost::asio;
namespace net = lockstep::net;
namespace membership = lockstep::membership;
using asio::ip::tcp;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

void allow_open_files(rlim_t count) {
  const rlimit limit{count, count};
  if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) std::perror("setrlimit");
}

// The child writes its port into the pipe and serves until it is killed.
struct Scheduler {
  pid_t pid = -1;
  std::uint16_t port = 0;
};

Scheduler start_scheduler(int workers) {
  int ends[2];
  if (::pipe(ends) != 0) throw std::runtime_error("no pipe");
  Scheduler child;
  child.pid = ::fork();
  if (child.pid == 0) {
    membership::ServerOptions options;
    options.workers = workers;
    options.most_connections = static_cast<std::size_t>(2 * workers);
    membership::Server server(options);
    const std::uint16_t port = server.port();
    if (::write(ends[1], &port, sizeof port) != sizeof port) std::_Exit(1);
    server.run();
    std::_Exit(0);
  }
  if (::read(ends[0], &child.port, sizeof child.port) != sizeof child.port) throw std::runtime_error("no port");
  return child;
}

double cpu_seconds(pid_t pid) {
  std::string line;
  std::getline(std::ifstream(fmt::format("/proc/{}/stat", pid)), line);
  std::istringstream fields(line.substr(line.rfind(')') + 1));
  std::string word;
  for (int i = 0; i < 11; ++i) fields >> word;
  double user = 0;
  double system = 0;
  fields >> user >> system;
  return (user + system) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

double peak_mb(pid_t pid) {
  std::ifstream status(fmt::format("/proc/{}/status", pid));
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::stod(line.substr(6)) / 1024;
  }
  return 0;
}

struct Count {
  int seated = 0;
  int beats = 0;
  std::string first_error;
};

net::Awaitable<void> send_beats(net::Channel& channel, Count& count, asio::steady_timer& timer) {
  std::int64_t step = 0;
  for (;;) {
    timer.expires_after(std::chrono::seconds(3));
    co_await timer.async_wait(asio::use_awaitable);
    co_await channel.send(print(membership::FromWorker(membership::Heartbeat{++step})));
    ++count.beats;
  }
}

net::Awaitable<void> be_worker(asio::io_context& context, std::uint16_t port, int number, Count& count) {
  try {
    net::ChannelLimits limits;
    limits.step = std::chrono::seconds(60);
    net::Channel channel(tcp::socket(context), limits);
    const std::vector<tcp::endpoint> there(1, tcp::endpoint(asio::ip::address_v4::loopback(), port));
    co_await channel.connect(there);
    co_await channel.open_websocket("here", "/v1/worker");
    co_await channel.receive();
    membership::Register request;
    request.node_id = fmt::format("worker_{}", number);
    request.named = true;
    request.life = lockstep::random_token();
    request.host = "host";
    request.machine = fmt::format("machine {}", number / 8);
    co_await channel.send(print(membership::FromWorker(request)));
    for (;;) {
      const auto message = membership::parse_from_scheduler(co_await channel.receive());
      if (std::holds_alternative<membership::RankAssignment>(message)) break;
    }
    ++count.seated;
    asio::steady_timer timer(context);
    co_await send_beats(channel, count, timer);
  } catch (const std::exception& error) {
    if (count.first_error.empty()) count.first_error = error.what();
  }
}

int measure(int workers, int beat_for) {
  allow_open_files(static_cast<rlim_t>(2 * workers + 100));
  const Scheduler server = start_scheduler(workers);
  asio::io_context context(1);
  Count count;
  const auto start = Clock::now();
  for (int i = 0; i < workers; ++i) asio::co_spawn(context, be_worker(context, server.port, i, count), asio::detached);
  while (count.seated < workers && count.first_error.empty()) context.run_one();
  const double registered = seconds_since(start);
  const double cpu = cpu_seconds(server.pid);
  const auto beating = Clock::now();
  const int before = count.beats;
  context.run_for(std::chrono::seconds(beat_for));
  const double wall = seconds_since(beating);
  const nlohmann::ordered_json result = {{"workers", workers},
                                         {"register_s", registered},
                                         {"register_cpu_s", cpu},
                                         {"beats_per_s", (count.beats - before) / wall},
                                         {"heartbeat_cores", (cpu_seconds(server.pid) - cpu) / wall},
                                         {"peak_mb", peak_mb(server.pid)},
                                         {"first_error", count.first_error}};
  fmt::print("{}\n", result.dump(2));
  ::kill(server.pid, SIGKILL);
  ::waitpid(server.pid, nullptr, 0);
  return count.first_error.empty() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Load of a scheduler");
  int workers = 5000;
  int beat_for = 15;
  app.add_option("--workers", workers)->capture_default_str();
  app.add_option("--seconds", beat_for, "of heartbeats")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  return measure(workers, beat_for);
}
