#include <lockstep/store/client.h>
#include <lockstep/store/client_handshake.h>
#include <lockstep/store/socket_wait.h>

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
  if (static_cast<Status>(answer.number()) == Status::done) return std::string(answer.rest());
  throw std::runtime_error("the store refuses a request: " + std::string(answer.text()));
}

}  // namespace

Client::Client(const std::string& host, std::uint16_t port, const std::string& secret, Time deadline)
    : socket_(connect_to_store(host, port, secret, deadline)) {}

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
      throw Overdue("the store did not answer in time, or what was waited for did not come");
    }
  }
  const auto body = std::move(*own->second);
  answers_.erase(own);
  return body;
}

/// Appends received bytes to in_; false when nothing arrived until the deadline. The end of the connection is recorded
/// in broken_ for all threads.
bool Client::receive(std::optional<Time> deadline) {
  if (!wait_for(socket_.get(), POLLIN, deadline)) return false;
  std::array<char, 16384> buffer;  // NOLINT: filled below
  const auto count = ::recv(socket_.get(), buffer.data(), buffer.size(), 0);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return true;
  if (count > 0) {
    in_.append(buffer.data(), static_cast<std::size_t>(count));
    return true;
  }
  const auto why = count == 0 ? std::string("the store has closed the connection")
                              : "the connection to the store is lost: " + std::generic_category().message(errno);
  const std::lock_guard lock(mutex_);
  if (broken_.empty()) broken_ = why;
  return true;
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
    if (broken_.empty()) broken_ = std::string("the store answers nonsense: ") + error.what();
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
  std::size_t sent = 0;
  while (sent < message.size()) {
    const auto count = ::send(socket_.get(), message.data() + sent, message.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count > 0) {
      sent += static_cast<std::size_t>(count);
    } else if (count < 0 && errno == EAGAIN) {
      if (!wait_for(socket_.get(), POLLOUT, deadline)) break_off("the store does not read what it is asked");
    } else if (count < 0 && errno != EINTR) {
      break_off("the connection to the store is lost: " + std::generic_category().message(errno));
    }
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
