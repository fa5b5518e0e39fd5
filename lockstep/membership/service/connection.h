// One connection of the service: its socket, and the messages that are to be sent over it.
#pragma once

#include <lockstep/membership/messages.h>
#include <lockstep/net/channel.h>

#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <deque>
#include <string>

namespace lockstep::membership {

struct Connection {
  Connection(boost::asio::ip::tcp::socket socket, const net::ChannelLimits& limits, std::uint64_t number,
             std::chrono::steady_clock::time_point now)
      : id(number), since(now), wake(socket.get_executor()), channel(std::move(socket), limits) {}

  std::uint64_t id;
  std::chrono::steady_clock::time_point since;
  bool is_visitor = false;   ///< sent nothing, or requested the status: its end is not logged
  bool closing = false;      ///< to be closed once the outbox is empty
  std::string close_reason;  ///< why the scheduler closed it, if it did
  std::deque<std::string> outbox;
  boost::asio::steady_timer wake;  ///< wakes the coroutine that sends the outbox
  net::Channel channel;
};

/// Sends the messages of the outbox until the connection is closed.
net::Awaitable<void> send_outbox(std::shared_ptr<Connection> connection);

/// Puts a message into the outbox. The connection of a peer that does not read is closed.
void post(Connection& connection, const FromScheduler& message);

/// Closes the connection when the outbox is empty.
void close_politely(Connection& connection);

/// Closes the connection now.
void close(Connection& connection, std::string reason);

}  // namespace lockstep::membership
