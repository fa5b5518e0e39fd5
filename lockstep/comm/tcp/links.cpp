// An epoll loop over the connections of a group, on whichever thread serves; calling threads send short messages at
// once.
#include <lockstep/base/threads.h>
#include <lockstep/comm/tcp/links.h>

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <exception>
#include <utility>

namespace lockstep::detail::tcp {
namespace {

constexpr std::uint64_t kWakeUp = ~std::uint64_t{0};

/// Up to this size the calling thread sends its data itself, which is faster than waking the other thread.
constexpr std::size_t kSentAtOnce = std::size_t{64} << 10;

UniqueFd opened(int descriptor) {
  if (descriptor < 0) fail(ErrorKind::io, "tcp", "cannot wait for connections: {}", std::strerror(errno));
  return UniqueFd(descriptor);
}

// Only the program's own threads may handle signals.
std::thread without_signals(const std::function<void()>& body) {
  const SignalsBlocked blocked;
  return std::thread(body);
}

}  // namespace

Links::Links(std::vector<Connection> connections)
    : gate_(opened(::epoll_create1(EPOLL_CLOEXEC))),
      epoll_(opened(::epoll_create1(EPOLL_CLOEXEC))),
      wake_(opened(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK))) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = kWakeUp;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, wake_.get(), &event);
  ::epoll_ctl(gate_.get(), EPOLL_CTL_ADD, epoll_.get(), &event);
  watched_.resize(connections.size());
  for (std::size_t peer = 0; peer < connections.size(); ++peer) {
    auto& connection = connections[peer];
    links_.push_back(connection.socket ? std::make_unique<Link>(std::move(connection), results_) : nullptr);
    if (links_.back()) watch(peer);
  }
  thread_ = without_signals([this] { run(); });
}

Links::~Links() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  wake();
  thread_.join();
  for (const auto& link : links_) {
    if (link) link->end();
  }
}

void Links::start(const std::shared_ptr<Operation>& operation) {
  ++under_way_;
  {
    const std::lock_guard lock(started_mutex_);
    started_.push_back(operation);
  }
  // The thread may hold the lock for as long as it moves a lot of data; it then starts this operation, too.
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return wake();
  take_started();
  settle();
  wake_if_done();
}

void Links::serve_until_done(Operation& awaited, std::chrono::steady_clock::time_point deadline) {
  const std::unique_lock serving(serving_mutex_, std::try_to_lock);
  if (!serving) return;
  open_gate(false);
  bool reads_on = false;
  for (;;) {
    {
      const std::lock_guard lock(mutex_);
      awaited_ = awaited.over() ? nullptr : &awaited;
      reads_on = !unread_.empty();
    }
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (awaited.test() || left.count() <= 0) break;
    serve(reads_on ? 0 : static_cast<int>(std::min<std::int64_t>(left.count(), 3'600'000)));
  }
  {
    const std::lock_guard lock(mutex_);
    awaited_ = nullptr;
  }
  open_gate(true);
  if (reads_on) wake();  // the kernel reports no event of what the group's own thread has to read
}

void Links::open_gate(bool open) noexcept {
  epoll_event event{};
  event.events = open ? static_cast<std::uint32_t>(EPOLLIN) : 0;
  ::epoll_ctl(gate_.get(), EPOLL_CTL_MOD, epoll_.get(), &event);
}

bool Links::busy() { return under_way_ > 0; }

void Links::abort() noexcept {
  try {
    const std::lock_guard lock(mutex_);
    if (std::exchange(aborted_, true)) return;
    close_all(Error(ErrorKind::peer_lost, "tcp", "the group was closed"));
  } catch (const std::exception&) {  // out of memory: the connections end with the process
  }
}

void Links::close_all(const Error& reason) {
  for (std::size_t peer = 0; peer < links_.size(); ++peer) {
    if (!links_[peer]) continue;
    links_[peer]->close(reason);
    touched_.push_back(peer);
  }
  settle();
  wake_if_done();
}

void Links::run() noexcept {
  for (;;) {
    bool reads_on = false;
    {
      const std::lock_guard lock(mutex_);
      if (ended_) return;
      reads_on = !unread_.empty() && awaited_ == nullptr;
      wake_if_done();
    }
    epoll_event event{};
    if (::epoll_wait(gate_.get(), &event, 1, reads_on ? 0 : -1) > 0 || reads_on) serve(0);
  }
}

void Links::serve(int timeout) noexcept {
  try {
    serve_events(timeout);
  } catch (const std::exception& error) {  // out of memory
    const std::lock_guard lock(mutex_);
    close_all(Error(ErrorKind::peer_lost, "tcp", error.what()));
  }
}

void Links::serve_events(int timeout) {
  std::array<epoll_event, 64> events{};
  const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), timeout);
  const std::lock_guard lock(mutex_);
  auto unread = std::exchange(unread_, {});
  for (int i = 0; i < count; ++i) {
    const auto& event = events[static_cast<std::size_t>(i)];
    if (event.data.u64 == kWakeUp) {
      std::uint64_t times = 0;
      [[maybe_unused]] const auto read = ::read(wake_.get(), &times, sizeof times);
      continue;
    }
    const auto peer = static_cast<std::size_t>(event.data.u64);
    if ((event.events & EPOLLOUT) != 0) links_[peer]->write();
    if ((event.events & ~static_cast<std::uint32_t>(EPOLLOUT)) != 0) unread.push_back(peer);
    touched_.push_back(peer);
  }
  std::sort(unread.begin(), unread.end());
  unread.erase(std::unique(unread.begin(), unread.end()), unread.end());
  for (const auto peer : unread) read_from(peer);
  take_started();
  settle();
}

void Links::read_from(std::size_t peer) {
  if (!links_[peer]->read()) unread_.push_back(peer);
  touched_.push_back(peer);
}

void Links::take_started() {
  for (;;) {
    std::shared_ptr<Operation> operation;
    {
      const std::lock_guard lock(started_mutex_);
      if (started_.empty()) return;
      operation = std::move(started_.front());
      started_.pop_front();
    }
    advance(operation);
    if (operation->over()) --under_way_;
  }
}

void Links::advance(const std::shared_ptr<Operation>& operation) {
  while (!operation->over() && !operation->finish_complete()) {
    const auto next = operation->begin_next();
    if (!next) return;
    post(operation, next->first, next->second);
  }
}

void Links::post(const std::shared_ptr<Operation>& operation, int number, const Exchange& exchange) {
  operation->expect(number, exchange.receives.size() + exchange.sends.size());
  const auto link_of = [this](int peer) -> Link& {
    touched_.push_back(static_cast<std::size_t>(peer));
    return *links_[static_cast<std::size_t>(peer)];
  };
  for (const auto& [data, bytes, peer] : exchange.receives) link_of(peer).receive({operation, number, data, bytes});
  for (const auto& [data, bytes, peer] : exchange.sends) link_of(peer).send({operation, number, data, bytes});
}

// Advances the operations whose messages are complete, and sends short messages, until no further step is possible.
void Links::settle() {
  std::vector<std::size_t> seen;
  do {
    settle_results();
    auto touched = std::exchange(touched_, {});
    for (const auto peer : touched) {
      Link& link = *links_[peer];
      const auto waiting = link.waiting_bytes();
      if (waiting > 0 && waiting <= kSentAtOnce && !link.waits_to_write()) link.write();
    }
    seen.insert(seen.end(), touched.begin(), touched.end());
  } while (!results_.completed.empty() || !results_.failed.empty() || !touched_.empty());
  std::sort(seen.begin(), seen.end());
  seen.erase(std::unique(seen.begin(), seen.end()), seen.end());
  for (const auto peer : seen) watch(peer);
}

void Links::settle_results() {
  while (!results_.completed.empty() || !results_.failed.empty()) {
    const auto results = std::exchange(results_, {});
    for (const auto& [message, error] : results.failed) {
      if (message.operation->over()) continue;
      message.operation->fail(error);
      --under_way_;
    }
    for (const auto& message : results.completed) message.operation->completed(message.exchange);
    for (const auto& message : results.completed) {
      if (message.operation->over()) continue;
      advance(message.operation);
      if (message.operation->over()) --under_way_;
    }
  }
}

void Links::watch(std::size_t peer) {
  const Link& link = *links_[peer];
  std::uint32_t events = 0;
  if (link.wants_to_read()) events |= EPOLLIN;
  if (link.waiting_bytes() > 0 || link.waits_to_write()) events |= EPOLLOUT;
  auto& watched = watched_[peer];
  if (events == watched) return;
  const int change = watched == 0 ? EPOLL_CTL_ADD : events == 0 ? EPOLL_CTL_DEL : EPOLL_CTL_MOD;
  const bool reads_again = (events & EPOLLIN) != 0 && (watched & EPOLLIN) == 0;
  watched = events;
  epoll_event event{};
  event.events = events;
  event.data.u64 = peer;
  ::epoll_ctl(epoll_.get(), change, link.socket(), &event);
  if (!reads_again) return;
  unread_.push_back(peer);  // the stream may hold data of which the kernel does not report an event
  wake();
}

// The thread that serves while it waits has to look whether another thread has completed its operation.
void Links::wake_if_done() const noexcept {
  if (awaited_ != nullptr && awaited_->over()) wake();
}

void Links::wake() const noexcept {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(wake_.get(), &one, sizeof one);
}

}  // namespace lockstep::detail::tcp
