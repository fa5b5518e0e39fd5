// A coroutine's wait on a steady timer, which cancelling the timer ends early.
#include <lockstep/net/sleep.h>

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace lockstep::net {

Awaitable<void> sleep(boost::asio::steady_timer& timer, std::chrono::milliseconds time) {
  boost::system::error_code woken;
  timer.expires_after(time);
  co_await timer.async_wait(boost::asio::redirect_error(boost::asio::use_awaitable, woken));
}

}  // namespace lockstep::net
