// One rank's view of the segment (the values that it has published, and the last values that it read from the others),
// and the operations that use it.
#pragma once

#include <lockstep/base/error.h>
#include <lockstep/comm/shm/segment.h>

#include <atomic>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace lockstep::shm {

/// The position of a tensor in a block of shared memory, if it is in one. The block is mapped on every rank, with the
/// part of each rank `stride` bytes after that of the previous rank.
struct Place {
  std::uint32_t block = 0;   ///< 0: in ordinary memory
  std::uint64_t offset = 0;  ///< in the rank's part
  std::byte* base = nullptr;
  std::size_t stride = 0;

  std::byte* address(int rank, std::uint64_t at) const { return base + static_cast<std::size_t>(rank) * stride + at; }
};

/// Collectives are numbered by `next_sequence`; a rank enters, settles and completes them in that order. Settling
/// decides, from the headers of all ranks, whether the ranks agree and which chunks of the staging memory the
/// collective takes. All ranks decide alike, so they count the same chunks. Not thread-safe.
class Endpoint {
 public:
  Endpoint(const Segment& segment, int rank);

  int rank() const { return rank_; }
  int size() const { return segment_.ranks(); }
  const Segment& segment() const { return segment_; }
  const Geometry& geometry() const { return segment_.geometry(); }

  std::uint64_t next_sequence() { return ++submitted_; }

  /// Whether `sequence` is the next to be entered and its header may be overwritten.
  bool may_enter(std::uint64_t sequence);
  void enter(std::uint64_t sequence, const Signature& signature, std::uint64_t hash, const Place& place,
             bool holds_chunk, std::string_view note);
  /// The header of any rank, nullptr as long as that rank has not entered `sequence`.
  const Header* entered(int rank, std::uint64_t sequence);

  bool all_settled_before(std::uint64_t sequence) const { return settled_ + 1 == sequence; }
  void settle(std::uint64_t sequence) { settled_ = sequence; }
  void complete(std::uint64_t sequence);

  /// Takes the next `count` chunks for a collective that is the next to settle; returns the first.
  std::uint64_t take_chunks(std::uint64_t count);
  void give_back_chunks(std::uint64_t count) { taken_ -= count; }
  std::uint64_t next_chunk() const { return taken_; }
  /// Whether this rank may write chunk `chunk`: all ranks have finished with the former content of its buffer.
  bool chunk_free(std::uint64_t chunk);
  std::uint64_t consumed() const { return consumed_; }

  void publish_produced(std::uint64_t chunks);
  void publish_reduced(std::uint64_t chunks);
  void publish_consumed(std::uint64_t chunks);
  void publish_direct(std::uint64_t sequence);

  /// Wakes the ranks that wait for data published since the last call.
  void flush();

  /// The count of everything that this rank published: if it is unchanged, nothing moved.
  std::uint64_t activity() const { return activity_; }

  /// For messages: ranks whose header of `sequence - headers` or whose staging blocks this rank.
  std::vector<int> ranks_not_completed(std::uint64_t sequence) const;
  std::vector<int> ranks_not_consumed(std::uint64_t chunk) const;

 private:
  void publish(std::atomic<std::uint64_t>& counter, std::uint64_t value);

  Segment segment_;
  int rank_;
  std::uint64_t submitted_ = 0;
  std::uint64_t entered_ = 0;
  std::uint64_t settled_ = 0;
  std::uint64_t completed_ = 0;
  std::uint64_t taken_ = 0;     // chunks, by collectives that have settled or are the next to settle
  std::uint64_t consumed_ = 0;  // chunks of others that this rank has finished with
  std::uint64_t activity_ = 0;
  bool unheard_ = false;  // data was published after the last flush
  // The last values read from each rank; this rank's own entries never block.
  std::vector<std::uint64_t> completed_seen_;
  std::vector<std::uint64_t> consumed_seen_;
};

/// The ranks that an operation waits for, and the step that they have not done: "has not entered it".
struct Lack {
  std::vector<int> ranks;
  std::string_view what;
};

/// The base class of pending operations: a state machine that advances when it is called and never waits.
class ShmOperation {
 public:
  explicit ShmOperation(std::string_view name) : name_(name) {}
  ShmOperation(const ShmOperation&) = delete;
  ShmOperation& operator=(const ShmOperation&) = delete;
  virtual ~ShmOperation() = default;

  std::string_view name() const { return name_; }
  bool done() const { return done_.load(std::memory_order_acquire); }
  /// After completion: throws the error with which it failed, if any.
  void rethrow() const {
    if (error_) throw *error_;
  }

  /// All causes that block it now; empty when it is complete or only waits for earlier operations. For the slow path.
  virtual std::vector<Lack> lacks(const Endpoint& endpoint) const = 0;

  /// Ends the operation. Only the first call counts.
  void finish() { done_.store(true, std::memory_order_release); }
  void finish_with(Error error) {
    if (done()) return;
    error_ = std::move(error);
    finish();
  }

 private:
  std::string_view name_;
  std::optional<Error> error_;
  std::atomic<bool> done_ = false;
};

}  // namespace lockstep::shm
