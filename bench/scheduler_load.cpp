// What a scheduler costs: a process of its own serves many simulated workers, which register at once and then send
// heartbeats. Each has a connection and does what a real one does; one thread plays all of them. Prints one JSON
// object.
#include "service_process.h"

#include <lockstep/base/crypto.h>
#include <lockstep/membership/messages.h>
#include <lockstep/membership/service/server.h>
#include <lockstep/net/channel.h>

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace {

namespace asio = boost::asio;
namespace bench = lockstep::bench;
namespace net = lockstep::net;
namespace membership = lockstep::membership;
using asio::ip::tcp;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

void serve(int workers, const bench::ReportPort& report) {
  membership::ServerOptions options;
  options.workers = workers;
  options.most_connections = static_cast<std::size_t>(2 * workers);
  membership::Server server(options);
  report(server.port());
  server.run();
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
  bench::allow_many_descriptors();
  const auto server = bench::start_service([&](const bench::ReportPort& report) { serve(workers, report); });
  asio::io_context context(1);
  Count count;
  const auto start = Clock::now();
  for (int i = 0; i < workers; ++i) asio::co_spawn(context, be_worker(context, server.port, i, count), asio::detached);
  while (count.seated < workers && count.first_error.empty()) context.run_one();
  const double registered = seconds_since(start);
  const double cpu = bench::cpu_seconds(server.pid);
  const auto beating = Clock::now();
  const int before = count.beats;
  context.run_for(std::chrono::seconds(beat_for));
  const double wall = seconds_since(beating);
  const nlohmann::ordered_json result = {{"workers", workers},
                                         {"register_s", registered},
                                         {"register_cpu_s", cpu},
                                         {"beats_per_s", (count.beats - before) / wall},
                                         {"heartbeat_cores", (bench::cpu_seconds(server.pid) - cpu) / wall},
                                         {"peak_mb", bench::memory_mb(server.pid, "VmHWM:")},
                                         {"first_error", count.first_error}};
  fmt::print("{}\n", result.dump(2));
  bench::end_service(server);
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
