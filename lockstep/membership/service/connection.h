// One connection to the scheduler. Internal to scheduler/.
#pragma once

#include <lockstep/membership/admission.h>
#include <lockstep/net/channel.h>

#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>

namespace lockstep::membership {

struct Connection {
  Connection(boost::asio::ip::tcp::socket socket, const net::ChannelLimits& limits, std::uint64_t number, Time now)
      : id(number), since(now), wake(socket.get_executor()), channel(std::move(socket), limits) {}

  std::uint64_t id;
  Time since;
  bool is_visitor = false;          ///< sent nothing, or requested the status: its end is not logged
  bool is_worker = false;           ///< registered
  bool expelled = false;            ///< was told to end, because it hangs
  bool closing = false;             ///< to be closed once the outbox is empty
  std::string close_reason;         ///< why the scheduler closed it, if it did
  std::string nonce;                ///< the nonce of our Hello
  std::string nonce_of_worker;      ///< the nonce of its Register
  std::optional<Applicant> asking;  ///< it has registered, and is not decided yet
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
