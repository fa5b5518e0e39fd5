// The outbox of a scheduler's connection: a coroutine sends it, and closes at once or after the last message.
#include <lockstep/membership/service/connection.h>

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace lockstep::membership {
namespace {

constexpr std::size_t kMostUnread = 256;

net::Awaitable<void> sleep_until_woken(Connection& connection) {
  boost::system::error_code woken;
  connection.wake.expires_at(std::chrono::steady_clock::time_point::max());
  co_await connection.wake.async_wait(boost::asio::redirect_error(boost::asio::use_awaitable, woken));
}

}  // namespace

net::Awaitable<void> send_outbox(std::shared_ptr<Connection> connection) {
  try {
    while (connection->close_reason.empty()) {
      if (!connection->outbox.empty()) {
        const std::string message = std::move(connection->outbox.front());
        connection->outbox.pop_front();
        co_await connection->channel.send(message);
      } else if (connection->closing) {
        break;
      } else {
        co_await sleep_until_woken(*connection);
      }
    }
  } catch (const std::exception&) {
    // The reading coroutine gets the same error and reports it.
  }
  connection->channel.close();
}

void post(Connection& connection, const FromScheduler& message) {
  if (connection.outbox.size() >= kMostUnread) return close(connection, "it does not read its messages");
  connection.outbox.push_back(print(message));
  connection.wake.cancel();
}

void close_politely(Connection& connection) {
  connection.closing = true;
  connection.wake.cancel();
}

void close(Connection& connection, std::string reason) {
  if (connection.close_reason.empty()) connection.close_reason = std::move(reason);
  connection.wake.cancel();
  connection.channel.close();
}

}  // namespace lockstep::membership
