// One collective or message of the tls backend: what it exchanges, step by step, and its state for the one that waits.
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

namespace lockstep::detail::tls {

using Exchange = NetworkReduction::Exchange;

/// The exchanges of an operation, in order.
struct Schedule {
  int exchanges = 0;
  int under_way = 1;  ///< at most this many at a time, 1 or 2
  std::function<Exchange(int)> exchange;
  std::function<void(int)> finished{};  ///< called once exchange k is complete; empty: nothing to do

  /// Known from the beginning; one after the other.
  static Schedule of(std::vector<Exchange> exchanges);
  static Schedule of(NetworkCall call);
};

class Operation : public WorkState {
 public:
  /// `tag`: the same on all ranks for one operation, and for no other. `kept`: the memory of its messages, held until
  /// the last of them is gone.
  Operation(std::uint64_t tag, Schedule schedule, std::vector<at::Tensor> kept)
      : tag_(tag), schedule_(std::move(schedule)), kept_(std::move(kept)) {}

  void wait(std::chrono::milliseconds timeout) override;
  bool test() override;

  // For Links, under its lock.

  std::uint64_t tag() const { return tag_; }
  /// Whether the length of a message is not known to both sides (send and receive), so that it may differ.
  bool is_message() const;
  /// The next exchange that can begin, with its number; nullopt: none before others are complete.
  std::optional<std::pair<int, Exchange>> begin_next();
  /// `count` messages of exchange `number` have begun.
  void expect(int number, std::size_t count) { open_[parity(number)] += count; }
  /// One of them is complete.
  void completed(int number) { --open_[parity(number)]; }
  /// Finishes exchanges that are complete. True: all are, and who waits was told.
  bool finish_complete();
  void fail(const Error& error);
  bool over() const { return over_; }

 private:
  static std::size_t parity(int number) { return static_cast<std::size_t>(number % 2); }
  void end(std::optional<Error> error);

  const std::uint64_t tag_;
  Schedule schedule_;
  std::vector<at::Tensor> kept_;
  int begun_ = 0;
  int finished_ = 0;
  std::array<std::size_t, 2> open_{};
  bool over_ = false;

  std::mutex mutex_;  ///< of the rest
  std::condition_variable changed_;
  bool done_ = false;
  std::optional<Error> error_;
};

/// Tags of collectives count up; those of messages are the user's, with this bit.
inline constexpr std::uint64_t kMessageBit = std::uint64_t{1} << 63;

}  // namespace lockstep::detail::tls
