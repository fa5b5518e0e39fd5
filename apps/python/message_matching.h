// The messages between two ranks that are in progress at the same time, and which receive gets which message.
#pragma once

#include <apps/python/torch_work.h>

#include <lockstep/comm/collectives.h>

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstddef>
#include <deque>
#include <exception>
#include <list>
#include <map>
#include <optional>
#include <utility>

namespace lockstep::python {

/// The largest tag of a message. Each message of a program is two of Lockstep, with tags of their own.
inline constexpr int kLargestTag = kMaxTag / 2;

/// A message that a program has sent or wants to receive.
struct QueuedMessage {
  c10::intrusive_ptr<TorchWork> work;
  at::Tensor tensor;  ///< of the program
  bool sends = false;
  std::optional<int> peer{};  ///< none: the receiver takes a message of any rank
  int tag = 0;
  std::chrono::milliseconds limit;
};

/// A message is its size in bytes with the number of its dtype, and then its data. So a receiver can wait for several
/// ranks at a time, and a receive of another size or dtype than the message is an error of this receive alone. A
/// message goes to the first receive that has begun and accepts its rank and tag. Not thread-safe, and without a
/// thread: its owner calls advance() again and again.
class MessageMatching {
 public:
  explicit MessageMatching(Group group) : group_(std::move(group)) {}

  void begin(QueuedMessage message);
  /// Advances all messages, completes their works, and returns how many have ended.
  std::size_t advance();
  bool idle() const { return sending_.empty() && waiting_.empty() && arriving_.empty(); }
  /// Ends all messages with this error.
  std::size_t fail_all(const std::exception_ptr& error);
  Group& group() { return group_; }

 private:
  using Clock = std::chrono::steady_clock;

  /// A transfer of Lockstep that is looked at from time to time.
  struct Watched {
    lockstep::Work work;
    Clock::time_point checked = Clock::now();
    bool over();
  };
  struct Started {
    QueuedMessage message;
    at::Tensor header;
    at::Tensor memory;  ///< of the data, on the host, flat
    std::deque<Watched> transfers{};
    Clock::time_point begun = Clock::now();
    std::exception_ptr misfit{};  ///< the message has another size than the receive
  };
  /// The next header of a rank and tag.
  struct Mailbox {
    at::Tensor header;
    Watched transfer;
    bool arrived = false;
  };
  using Key = std::pair<int, int>;  ///< rank and tag

  void send(Started& one);
  void open_mailboxes(const QueuedMessage& message);
  void read_mailboxes();
  void deliver(const Key& key, const at::Tensor& header);
  void deliver_arrived();
  void finish(Started& one, std::exception_ptr error);
  bool advance(Started& one);
  void fail_late(std::list<Started>& messages);

  Group group_;
  std::list<Started> sending_;
  std::list<Started> waiting_;   ///< receives without a message
  std::list<Started> arriving_;  ///< receives whose header has arrived
  std::map<Key, Mailbox> mailboxes_;
  std::size_t ended_ = 0;
};

}  // namespace lockstep::python
