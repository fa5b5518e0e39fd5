// The schedule of an operation's exchanges, with one or two pending at a time, and its end for the waiting thread.
#include <lockstep/comm/tcp/links.h>
#include <lockstep/comm/tcp/operation.h>

#include <algorithm>
#include <utility>

namespace lockstep::detail::tcp {
namespace {

constexpr std::chrono::hours kLongestWait(24 * 365);  // so that a deadline can be computed

}  // namespace

Schedule Schedule::of(std::vector<Exchange> exchanges) {
  const auto count = static_cast<int>(exchanges.size());
  return {.exchanges = count,
          .exchange = [all = std::move(exchanges)](int k) { return all[static_cast<std::size_t>(k)]; }};
}

Schedule Schedule::of(NetworkCall call) {
  const auto reduction = std::make_shared<NetworkReduction>(std::move(call));
  return {.exchanges = reduction->exchanges(),
          .under_way = 2,
          .exchange = [reduction](int k) { return reduction->exchange(k); },
          .finished = [reduction](int k) { reduction->finished(k); }};
}

void Operation::wait(std::chrono::milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + std::min<std::chrono::milliseconds>(timeout, kLongestWait);
  if (links_ != nullptr && !test()) links_->serve_until_done(*this, deadline);
  std::unique_lock lock(mutex_);
  if (!changed_.wait_until(lock, deadline, [this] { return done_; }))
    throw Error(ErrorKind::timeout, "tcp", "not complete");
  if (error_) throw Error(*error_);
}

bool Operation::test() {
  const std::lock_guard lock(mutex_);
  return done_;
}

bool Operation::is_message() const { return (tag_ & kMessageBit) != 0; }

std::optional<std::pair<int, Exchange>> Operation::begin_next() {
  if (over_ || begun_ == schedule_.exchanges || begun_ - finished_ == schedule_.under_way) return std::nullopt;
  const int number = begun_++;
  return std::pair(number, schedule_.exchange(number));
}

bool Operation::finish_complete() {
  while (!over_ && finished_ < begun_ && open_[parity(finished_)] == 0) {
    if (schedule_.finished) schedule_.finished(finished_);
    ++finished_;
  }
  if (!over_ && finished_ == schedule_.exchanges) end(std::nullopt);
  return over_;
}

void Operation::fail(const Error& error) {
  if (!over_) end(error);
}

void Operation::end(std::optional<Error> error) {
  over_ = true;
  const std::lock_guard lock(mutex_);
  error_ = std::move(error);
  done_ = true;
  changed_.notify_all();
}

}  // namespace lockstep::detail::tcp
