// One collective or message of the tcp backend: its exchanges, step by step, and its state for the waiting thread.
#pragma once

#include <lockstep/base/error.h>
#include <lockstep/comm/backend.h>
#include <lockstep/comm/reduction/network_reduction.h>

#include <ATen/core/Tensor.h>

#include <array>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace lockstep::detail::tcp {

using Exchange = NetworkReduction::Exchange;

/// The exchanges of an operation, in order.
struct Schedule {
  int exchanges = 0;
  int under_way = 1;  ///< at most this many pending at a time, 1 or 2
  std::function<Exchange(int)> exchange;
  std::function<void(int)> finished{};  ///< called once exchange k is complete; empty: nothing to do

  /// A schedule whose exchanges are known in advance and run one after the other.
  static Schedule of(std::vector<Exchange> exchanges);
  static Schedule of(NetworkCall call);
};

class Links;

class Operation : public WorkState {
 public:
  /// `tag`: the same on all ranks for one operation, and different for every other operation. `kept`: the memory of its
  /// messages, held until the last of them has ended. `links`: what carries it, and outlives it until it is done;
  /// nullptr: waits do not serve connections.
  Operation(std::uint64_t tag, Schedule schedule, std::vector<at::Tensor> kept, Links* links = nullptr)
      : tag_(tag), schedule_(std::move(schedule)), kept_(std::move(kept)), links_(links) {}

  /// Serves the connections meanwhile, unless another thread does: no thread has to be woken for what arrives.
  void wait(std::chrono::milliseconds timeout) override;
  bool test() override;

  // For Links, under its lock.

  std::uint64_t tag() const { return tag_; }
  /// Whether the two sides have not agreed on the length of a message (send and receive), so that the lengths may
  /// differ.
  bool is_message() const;
  /// The next exchange that can start, with its number; nullopt: it must wait until others are complete.
  std::optional<std::pair<int, Exchange>> begin_next();
  /// `count` messages of exchange `number` have started.
  void expect(int number, std::size_t count) { open_[parity(number)] += count; }
  /// One message of exchange `number` is complete.
  void completed(int number) { --open_[parity(number)]; }
  /// Finishes complete exchanges. True: all are complete, and the waiting thread was notified.
  bool finish_complete();
  void fail(const Error& error);
  bool over() const { return over_; }

 private:
  static std::size_t parity(int number) { return static_cast<std::size_t>(number % 2); }
  void end(std::optional<Error> error);

  const std::uint64_t tag_;
  Schedule schedule_;
  std::vector<at::Tensor> kept_;
  Links* const links_;
  int begun_ = 0;
  int finished_ = 0;
  std::array<std::size_t, 2> open_{};
  bool over_ = false;

  std::mutex mutex_;  ///< of the members below
  std::condition_variable changed_;
  bool done_ = false;
  std::optional<Error> error_;
};

/// Tags of collectives are counted; those of messages are the user's tags, with this bit.
inline constexpr std::uint64_t kMessageBit = std::uint64_t{1} << 63;

}  // namespace lockstep::detail::tcp
