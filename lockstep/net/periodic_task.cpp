// A coroutine that sleeps for an interval, calls a function, and repeats.
#include <lockstep/net/channel.h>
#include <lockstep/net/periodic_task.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

namespace lockstep::net {
namespace {

namespace asio = boost::asio;

net::Awaitable<void> repeat(asio::io_context& context, PeriodicTask task) {
  asio::steady_timer timer(context);
  for (;;) {
    co_await net::sleep(timer, task.interval);
    task.call();
  }
}

}  // namespace

void run_periodically(asio::io_context& context, PeriodicTask task) {
  if (task.call) asio::co_spawn(context, repeat(context, std::move(task)), asio::detached);
}

}  // namespace lockstep::net
