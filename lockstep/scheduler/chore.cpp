#include <lockstep/net/sleep.h>
#include <lockstep/scheduler/chore.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

namespace lockstep::scheduler {
namespace {

namespace asio = boost::asio;

net::Awaitable<void> repeat(asio::io_context& context, Chore chore) {
  asio::steady_timer timer(context);
  for (;;) {
    co_await net::sleep(timer, chore.interval);
    chore.call();
  }
}

}  // namespace

void keep_doing(asio::io_context& context, Chore chore) {
  if (chore.call) asio::co_spawn(context, repeat(context, std::move(chore)), asio::detached);
}

}  // namespace lockstep::scheduler
