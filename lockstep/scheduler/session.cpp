#include <lockstep/scheduler/session.h>

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace lockstep::scheduler {
namespace {

constexpr std::size_t kMostUnread = 256;

net::Awaitable<void> sleep_until_woken(Session& session) {
  boost::system::error_code woken;
  session.wake.expires_at(Time::max());
  co_await session.wake.async_wait(boost::asio::redirect_error(boost::asio::use_awaitable, woken));
}

}  // namespace

net::Awaitable<void> send_outbox(std::shared_ptr<Session> session) {
  try {
    while (session->close_reason.empty()) {
      if (!session->outbox.empty()) {
        const std::string message = std::move(session->outbox.front());
        session->outbox.pop_front();
        co_await session->channel.send(message);
      } else if (session->closing) {
        break;
      } else {
        co_await sleep_until_woken(*session);
      }
    }
  } catch (const std::exception&) {
    // Its reader learns the same, and says why.
  }
  session->channel.close();
}

void post(Session& session, const FromScheduler& message) {
  if (session.outbox.size() >= kMostUnread) return close(session, "it does not read what it is sent");
  session.outbox.push_back(print(message));
  session.wake.cancel();
}

void close_politely(Session& session) {
  session.closing = true;
  session.wake.cancel();
}

void close(Session& session, std::string reason) {
  if (session.close_reason.empty()) session.close_reason = std::move(reason);
  session.wake.cancel();
  session.channel.close();
}

}  // namespace lockstep::scheduler
