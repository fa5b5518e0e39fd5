// Reductions over Gloo's unbound buffers on two threads; at most two exchanges of a reduction are pending at a time.
#include <lockstep/comm/gloo/reducer.h>
#include <lockstep/comm/gloo/states.h>
#include <lockstep/comm/gloo/without_sigpipe.h>

#include <gloo/context.h>
#include <gloo/transport/unbound_buffer.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <utility>

namespace lockstep::detail::gloo {
namespace {

constexpr std::size_t kThreads = 2;

/// The messages of one reduction. Messages with one peer are operations of one unbound buffer, which stands for all
/// memory. When a connection is lost, Gloo wakes threads that wait for a message that has not begun, but not threads
/// that wait for a message in transfer. Of two exchanges one has not begun, and its end also ends the wait for the
/// other.
class Messages {
 public:
  explicit Messages(ClosableGloo::Line line) : line_(std::move(line)) {}

  void post(const NetworkReduction::Exchange& exchange) {
    for (const auto& message : exchange.receives) {
      with(message.peer).recv(message.peer, line_.slot, offset_of(message), message.bytes);
    }
    for (const auto& message : exchange.sends) {
      with(message.peer).send(message.peer, line_.slot, offset_of(message), message.bytes);
    }
  }

  // Messages with one peer complete in the order in which they were posted.
  void wait(const NetworkReduction::Exchange& exchange) {
    for (const auto& message : exchange.receives) check(with(message.peer).waitRecv());
    for (const auto& message : exchange.sends) check(with(message.peer).waitSend());
  }

 private:
  using Buffer = ::gloo::transport::UnboundBuffer;

  Buffer& with(int peer) {
    auto& buffer = buffers_[peer];
    if (!buffer) buffer = line_.context->createUnboundBuffer(nullptr, std::numeric_limits<std::size_t>::max());
    return *buffer;
  }

  static std::size_t offset_of(const NetworkReduction::Message& message) {
    return reinterpret_cast<std::uintptr_t>(message.data);
  }

  static void check(bool complete) {
    if (!complete) throw Error(ErrorKind::peer_lost, "gloo", "the group was closed");
  }

  ClosableGloo::Line line_;
  std::map<int, std::unique_ptr<Buffer>> buffers_;  ///< by peer
};

void carry_out(NetworkReduction& reduction, const ClosableGloo::Line& line) {
  Messages messages(line);
  std::array<NetworkReduction::Exchange, 2> under_way;
  const int count = reduction.exchanges();
  for (int k = 0; k <= count; ++k) {
    if (k < count) {
      auto& next = under_way[static_cast<std::size_t>(k % 2)];
      next = reduction.exchange(k);
      messages.post(next);
    }
    if (k == 0) continue;
    messages.wait(under_way[static_cast<std::size_t>((k - 1) % 2)]);
    reduction.finished(k - 1);
  }
}

}  // namespace

Reducer::~Reducer() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    waiting_.clear();
  }
  more_.notify_all();
  for (auto& thread : threads_) thread.join();
}

bool Reducer::busy() {
  const std::lock_guard lock(mutex_);
  return !std::all_of(under_way_.begin(), under_way_.end(), is_ready);
}

void Reducer::start_threads() {
  const WithoutSigpipe guard;  // the threads inherit it
  while (threads_.size() < kThreads) threads_.emplace_back([this] { work(); });
}

Backend::Pending Reducer::start(NetworkCall call, std::vector<at::Tensor> kept) {
  const auto line = group_.line();
  std::packaged_task<void()> task([line, call = std::move(call), kept = std::move(kept)] {
    try {
      NetworkReduction reduction(call);
      carry_out(reduction, line);
    } catch (const Error&) {
      throw;
    } catch (const std::exception& error) {
      throw as_error(error);
    }
  });
  auto done = task.get_future().share();
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(task));
    std::erase_if(under_way_, is_ready);
    under_way_.push_back(done);
    if (threads_.empty()) start_threads();
  }
  more_.notify_one();
  return pending(std::move(done));
}

void Reducer::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    more_.wait(lock, [this] { return ended_ || !waiting_.empty(); });
    if (ended_) return;
    auto task = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    task();
    task = {};  // releases the tensors
    lock.lock();
  }
}

}  // namespace lockstep::detail::gloo
