// The thread of a session: the connection to the scheduler, and the messages over it.
#include <lockstep/base/log.h>
#include <lockstep/base/stack_signal.h>
#include <lockstep/base/this_host.h>
#include <lockstep/membership/session/worker_session_state.h>
#include <lockstep/net/channel.h>
#include <lockstep/net/name_lookup.h>

#include <unistd.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/ssl/context.hpp>
#include <chrono>
#include <csignal>
#include <exception>
#include <random>

namespace lockstep::membership {
namespace {

namespace asio = boost::asio;
using Clock = std::chrono::steady_clock;

constexpr auto kLastWords = std::chrono::seconds(5);
constexpr auto kWatchedHeartbeat = std::chrono::seconds(1);
constexpr int kHung = 1;  // exit code: the same as for other failures

}  // namespace

/// The backoff between attempts to connect: from 0.1 s to 3 s, each time longer by half; with random jitter, so that
/// thousands of workers do not connect at once.
class BackOff {
 public:
  std::chrono::milliseconds next() {
    const std::chrono::milliseconds longest = next_;
    next_ = std::min(next_ * 3 / 2, std::chrono::milliseconds(3000));
    return longest / 2 + std::chrono::milliseconds(random_() % static_cast<unsigned>(longest.count() / 2 + 1));
  }

 private:
  std::chrono::milliseconds next_{100};
  std::minstd_rand random_{std::random_device{}()};
};

net::Awaitable<void> WorkerSession::State::live() {
  BackOff back_off;
  for (;;) {
    Disconnected end;
    try {
      co_await converse();
    } catch (const Error& error) {
      end = {error.message(), error.kind() == ErrorKind::environment};
    } catch (const std::exception& error) {
      end.why = error.what();
    }
    bool over = false;
    {
      const std::lock_guard lock(mutex_);
      if (session_.connected) back_off = {};
    }
    take(end);
    {
      const std::lock_guard lock(mutex_);
      over = session_.over.has_value();
    }
    if (over) co_return;
    co_await net::sleep(pause_, back_off.next());
  }
}

net::Awaitable<void> WorkerSession::State::converse() {
  net::ChannelLimits limits;
  limits.idle = options_.heartbeat_limit;
  limits.keep_alive = true;
  limits.longest_message = kLongestMessage;
  auto endpoints = net::look_up(options_.host, options_.port, Clock::now() + limits.step);
  const auto channel = std::make_shared<net::Channel>(asio::ip::tcp::socket(context_), limits);
  co_await channel->connect(std::move(endpoints));
  // Names are not compared between the processes of a launcher's job (net/tls_contexts.h).
  const auto expected = options_.of_launcher ? std::nullopt : std::optional(options_.host);
  if (options_.tls) co_await channel->secure_as_client(*options_.tls, expected);
  co_await channel->open_websocket(session_.facts.where, "/v1/worker");
  const auto hello = parse_from_scheduler(co_await channel->receive());
  {
    const std::lock_guard lock(mutex_);
    own_address_ = channel->own_address();
  }
  outbox_.clear();
  take(hello);  // the registration is its answer
  channel_ = channel;
  asio::co_spawn(context_, keep_sending(channel), asio::detached);
  try {
    for (;;) take(parse_from_scheduler(co_await channel->receive()));
  } catch (...) {
    channel->close();
    channel_.reset();
    wake_.cancel();
    throw;
  }
}

// Sends the messages of the outbox; sends a heartbeat after some time without a message.
net::Awaitable<void> WorkerSession::State::keep_sending(std::shared_ptr<net::Channel> channel) {
  const auto heartbeat = std::min(options_.heartbeat, options_.heartbeat_limit / 4);
  try {
    while (channel_ == channel) {
      if (outbox_.empty())
        co_await net::sleep(
            wake_, session_.watched ? std::min<std::chrono::milliseconds>(heartbeat, kWatchedHeartbeat) : heartbeat);
      if (channel_ != channel) co_return;
      FromWorker message = Heartbeat{};
      const bool has_message = !outbox_.empty();
      if (has_message) {
        message = std::move(outbox_.front());
        outbox_.pop_front();
      }
      // The last report is that of the end.
      const bool ends = session_.watched && std::holds_alternative<Leave>(message);
      if (!has_message || ends) co_await channel->send(print(report()));
      if (has_message) co_await channel->send(print(message));
    }
  } catch (const std::exception&) {
    channel->close();  // the receiving coroutine gets the same error and reports it
  }
}

void WorkerSession::State::take(const SessionInput& input) {
  // The function for a broken generation is called before another thread can set one, which would be called at once.
  // Not for Ended, as the end of a hanging process calls the function that describes its progress.
  std::unique_lock calling(calling_, std::defer_lock);
  const auto* message = std::get_if<FromScheduler>(&input);
  if (message != nullptr && !std::holds_alternative<Ended>(*message)) calling.lock();
  std::vector<SessionOutput> outputs;
  {
    const std::lock_guard lock(mutex_);
    outputs = step(session_, input);
    changed_.notify_all();
  }
  for (const auto& output : outputs) {
    std::visit([this](const auto& each) { carry_out(each); }, output);
  }
}

void WorkerSession::State::carry_out(const FromWorker& message) {
  asio::dispatch(context_, [this, message] {
    outbox_.push_back(message);
    wake_.cancel();
  });
}

void WorkerSession::State::carry_out(const GenerationBroken& broken) {
  if (on_broken_) on_broken_(broken.why);
}

void WorkerSession::State::carry_out(const MustEnd& end) { end_process(end.reason); }

PageContent WorkerSession::State::page() {
  const std::lock_guard calling(calling_);
  return read_page_ ? read_page_() : last_page_;
}

Heartbeat WorkerSession::State::report() {
  Heartbeat report;
  if (session_.watched) {
    report.page = page();
    report.memory = resident_bytes(::getpid());
  }
  const std::lock_guard lock(mutex_);
  report.step = last_step_.step;
  report.step_us = last_step_.step_us;
  report.own_us = last_step_.own_us;
  return report;
}

// Ends the process: there is no other way to end a hanging thread.
void WorkerSession::State::end_process(const std::string& reason) {
  const auto progress = describe(page().progress);
  const auto where = fmt::format("{}its stack is:\n{}", progress.empty() ? "" : fmt::format("it {}; ", progress),
                                 stack_of_thread(owner_, std::chrono::seconds(2)));
  log_error("{}; {}", reason, where);
  leave({false, "it hangs: " + where});
  asio::co_spawn(
      context_,
      [this]() -> net::Awaitable<void> {
        asio::steady_timer pause(context_);
        const auto deadline = Clock::now() + kLastWords;
        // The scheduler closes the connection after it has received the message.
        while (channel_ && Clock::now() < deadline) co_await net::sleep(pause, std::chrono::milliseconds(10));
        stop_logging();
        // A launcher that has no report from the service yet would treat an exit code as the program's decision.
        if (options_.of_launcher) ::raise(SIGKILL);
        ::_exit(kHung);
      },
      asio::detached);
}

}  // namespace lockstep::membership
