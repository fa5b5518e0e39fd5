// One connection to the scheduler. Internal to scheduler/.
#pragma once

#include <lockstep/net/channel.h>
#include <lockstep/scheduler/admission.h>

#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>

namespace lockstep::scheduler {

struct Session {
  Session(boost::asio::ip::tcp::socket socket, const net::ChannelLimits& limits, std::uint64_t number, Time now)
      : id(number), since(now), wake(socket.get_executor()), channel(std::move(socket), limits) {}

  std::uint64_t id;
  Time since;
  bool is_visitor = false;          ///< said nothing, or asked for the status: how it leaves is nobody's business
  bool is_worker = false;           ///< registered
  bool expelled = false;            ///< told to end, because it hangs
  bool closing = false;             ///< once what is to be sent was sent
  std::string close_reason;         ///< why we closed it, where we did
  std::string nonce;                ///< of our Hello
  std::string nonce_of_worker;      ///< of its Register
  std::optional<Applicant> asking;  ///< registered, and not decided yet
  std::deque<std::string> outbox;
  boost::asio::steady_timer wake;  ///< of whoever sends what is in the outbox
  net::Channel channel;
};

/// Sends what is in the outbox as it comes, until the session is closed.
net::Awaitable<void> send_outbox(std::shared_ptr<Session> session);

/// Puts a message into the outbox. A peer that does not read what it is sent is closed.
void post(Session& session, const FromScheduler& message);

/// Closes it when the outbox is empty.
void close_politely(Session& session);

/// Closes it now.
void close(Session& session, std::string reason);

}  // namespace lockstep::scheduler
