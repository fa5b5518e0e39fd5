// A store client for several threads: requests have numbers, and one waiting thread reads answers for all.
#include <lockstep/base/error.h>
#include <lockstep/net/tls_stream.h>
#include <lockstep/store/client.h>
#include <lockstep/store/client_handshake.h>

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <system_error>
#include <utility>

namespace lockstep::store {
namespace {

std::string result_of(const std::string& body) {
  MessageReader answer(body);
  answer.number();
  const auto status = static_cast<Status>(answer.number());
  if (status == Status::done) return std::string(answer.rest());
  throw std::runtime_error("the store refuses a request: " + std::string(answer.text()));
}

/// The connection has ended, for this reason.
class Lost : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace

Client::Client(const std::string& host, std::uint16_t port, const Credentials& credentials, Time deadline) {
  auto connection = connect_to_store(host, port, credentials, deadline);
  socket_ = std::move(connection.socket);
  stream_ = std::move(connection.stream);
}

Client::~Client() = default;

void Client::end() const noexcept { ::shutdown(socket_.get(), SHUT_RDWR); }

std::string Client::ask(Operation operation, const MessageWriter& fields, std::optional<Time> deadline) {
  Lock lock(mutex_);
  check_whole();
  const auto number = next_number_++;
  const auto message =
      MessageWriter().number(number).number(static_cast<std::uint64_t>(operation)).append(fields).message();
  send(message, deadline);
  answers_[number] = std::nullopt;
  return result_of(await(lock, number, deadline));
}

std::string Client::await(Lock& lock, std::uint64_t number, std::optional<Time> deadline) {
  const auto own = answers_.find(number);
  while (!own->second) {
    if (!broken_.empty()) {
      answers_.erase(own);
      check_whole();
    }
    bool in_time = true;
    if (reading_) {
      in_time = !deadline || changed_.wait_until(lock, *deadline) == std::cv_status::no_timeout;
      if (!deadline) changed_.wait(lock);
    } else {
      reading_ = true;
      lock.unlock();
      in_time = receive(deadline);
      lock.lock();
      sort_answers();
      reading_ = false;
      changed_.notify_all();
    }
    if (!in_time && !own->second && broken_.empty()) {
      answers_.erase(own);
      give_up(number);
      throw Overdue("the store did not answer in time, or the awaited change did not happen in time");
    }
  }
  const auto body = std::move(*own->second);
  answers_.erase(own);
  return body;
}

/// Appends received bytes to in_; false when nothing arrived until the deadline. The end of the connection is recorded
/// in broken_ for all threads.
bool Client::receive(std::optional<Time> deadline) {
  std::array<char, 16384> buffer;  // NOLINT: filled below
  try {
    auto count = receive_some(buffer);  // first, because the stream may hold data that polling the socket does not show
    if (count == 0) {
      if (!wait_for(socket_.get(), POLLIN, deadline)) return false;
      count = receive_some(buffer);
    }
    in_.append(buffer.data(), count);
  } catch (const Lost& lost) {
    const std::lock_guard lock(mutex_);
    if (broken_.empty()) broken_ = lost.what();
  }
  return true;
}

/// 0: no data has arrived
std::size_t Client::receive_some(std::span<char> into) {
  if (stream_) {
    const std::lock_guard lock(stream_mutex_);
    try {
      const auto moved = stream_->read(reinterpret_cast<std::byte*>(into.data()), into.size());
      if (moved.ended) throw Lost("the store has closed the connection");
      return moved.bytes;
    } catch (const Error& error) {
      throw Lost("the connection to the store is lost: " + error.message());
    }
  }
  const auto count = ::recv(socket_.get(), into.data(), into.size(), 0);
  if (count == 0) throw Lost("the store has closed the connection");
  if (count > 0) return static_cast<std::size_t>(count);
  if (errno == EAGAIN || errno == EINTR) return 0;
  throw Lost("the connection to the store is lost: " + std::generic_category().message(errno));
}

/// 0: the socket takes no data now, or has still to take what the stream holds
std::size_t Client::send_some(std::string_view from) {
  if (stream_) {
    const std::lock_guard lock(stream_mutex_);
    try {
      return stream_->flush() == net::TlsStream::Wait::to_write
                 ? 0
                 : stream_->write(reinterpret_cast<const std::byte*>(from.data()), from.size()).bytes;
    } catch (const Error& error) {
      throw Lost("the connection to the store is lost: " + error.message());
    }
  }
  const auto count = ::send(socket_.get(), from.data(), from.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (count >= 0) return static_cast<std::size_t>(count);
  if (errno == EAGAIN || errno == EINTR) return 0;
  throw Lost("the connection to the store is lost: " + std::generic_category().message(errno));
}

/// True once the socket has taken everything that the stream took.
bool Client::flushed() {
  if (!stream_) return true;
  const std::lock_guard lock(stream_mutex_);
  try {
    return stream_->flush() == net::TlsStream::Wait::nothing;
  } catch (const Error& error) {
    throw Lost("the connection to the store is lost: " + error.message());
  }
}

void Client::sort_answers() {
  std::size_t read = 0;
  try {
    while (const auto body = first_body(std::string_view(in_).substr(read))) {
      read += bytes_of_message(*body);
      const auto found = answers_.find(MessageReader(*body).number());
      if (found != answers_.end()) found->second = std::string(*body);  // otherwise the request was cancelled
    }
  } catch (const BadMessage& error) {
    if (broken_.empty()) broken_ = std::string("the store sent an invalid answer: ") + error.what();
  }
  in_.erase(0, read);
}

void Client::check_whole() const {
  if (!broken_.empty()) throw Unreachable(broken_);
}

void Client::break_off(const std::string& why) {
  broken_ = why;
  ::shutdown(socket_.get(), SHUT_RDWR);  // wakes the reading thread
  changed_.notify_all();
  throw Unreachable(why);
}

/// If a message was sent only partially, the connection is unusable and is closed.
void Client::send(const std::string& message, std::optional<Time> deadline) {
  try {
    for (std::size_t sent = 0; sent < message.size() || !flushed();) {
      const auto rest = std::string_view(message).substr(sent);
      const auto count = rest.empty() ? 0 : send_some(rest);
      sent += count;
      if (count > 0 || (rest.empty() && flushed())) continue;
      if (!wait_for(socket_.get(), POLLOUT, deadline)) break_off("the store does not read its requests");
    }
  } catch (const Lost& lost) {
    break_off(lost.what());
  }
}

void Client::give_up(std::uint64_t number) noexcept {
  try {
    const auto no_number = next_number_++;
    const auto cancel = MessageWriter()
                            .number(no_number)
                            .number(static_cast<std::uint64_t>(Operation::cancel))
                            .number(number)
                            .message();
    send(cancel, std::chrono::steady_clock::now() + std::chrono::seconds(1));
  } catch (const std::exception&) {  // the next request reports the error
  }
}

}  // namespace lockstep::store
