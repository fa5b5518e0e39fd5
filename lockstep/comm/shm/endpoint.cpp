// A rank's counters in the segment, published with release stores, and the checks which chunks and headers are free.
#include <lockstep/comm/shm/endpoint.h>
#include <lockstep/comm/shm/spin_then_sleep.h>

#include <algorithm>
#include <limits>

namespace lockstep::shm {
namespace {

// Whether all values of `seen` reach `needed`, after a new read of those that did not.
template <typename Load>
bool all_reach(std::vector<std::uint64_t>& seen, std::uint64_t needed, const Load& load) {
  for (std::size_t rank = 0; rank < seen.size(); ++rank) {
    if (seen[rank] >= needed) continue;
    seen[rank] = load(static_cast<int>(rank));
    if (seen[rank] < needed) return false;
  }
  return true;
}

}  // namespace

Endpoint::Endpoint(const Segment& segment, int rank)
    : segment_(segment),
      rank_(rank),
      completed_seen_(static_cast<std::size_t>(segment.ranks()), 0),
      consumed_seen_(static_cast<std::size_t>(segment.ranks()), 0) {
  completed_seen_[static_cast<std::size_t>(rank)] = std::numeric_limits<std::uint64_t>::max();
  consumed_seen_[static_cast<std::size_t>(rank)] = std::numeric_limits<std::uint64_t>::max();
}

bool Endpoint::may_enter(std::uint64_t sequence) {
  if (entered_ + 1 != sequence) return false;
  const auto headers = static_cast<std::uint64_t>(geometry().headers);
  if (sequence <= headers) return true;
  if (completed_ < sequence - headers) return false;
  return all_reach(completed_seen_, sequence - headers,
                   [&](int rank) { return segment_.released(rank).completed.load(std::memory_order_acquire); });
}

void Endpoint::enter(std::uint64_t sequence, const Signature& signature, std::uint64_t hash, const Place& place,
                     bool holds_chunk, std::string_view note) {
  Header& header = segment_.header(rank_, sequence);
  header.hash = hash;
  header.consumed = consumed_;
  header.completed = completed_;
  header.offset = place.offset;
  header.block = place.block;
  header.holds_chunk = holds_chunk ? 1 : 0;
  header.signature = signature;
  if (signature.kind == Kind::refused) {
    header.note = {};
    note.copy(header.note.data(), header.note.size() - 1);
  }
  entered_ = sequence;
  publish(header.sequence, sequence);
  flush();
}

const Header* Endpoint::entered(int rank, std::uint64_t sequence) {
  const Header& header = segment_.header(rank, sequence);
  if (header.sequence.load(std::memory_order_acquire) < sequence) return nullptr;
  if (rank != rank_) {
    const auto index = static_cast<std::size_t>(rank);
    completed_seen_[index] = std::max(completed_seen_[index], header.completed);
    consumed_seen_[index] = std::max(consumed_seen_[index], header.consumed);
  }
  return &header;
}

void Endpoint::complete(std::uint64_t sequence) {
  completed_ = sequence;
  publish(segment_.released(rank_).completed, sequence);
}

std::uint64_t Endpoint::take_chunks(std::uint64_t count) {
  const std::uint64_t first = taken_;
  taken_ += count;
  return first;
}

bool Endpoint::chunk_free(std::uint64_t chunk) {
  const auto buffers = static_cast<std::uint64_t>(geometry().chunks);
  if (chunk < buffers) return true;
  return all_reach(consumed_seen_, chunk + 1 - buffers,
                   [&](int rank) { return segment_.released(rank).consumed.load(std::memory_order_acquire); });
}

void Endpoint::publish(std::atomic<std::uint64_t>& counter, std::uint64_t value) {
  counter.store(value, std::memory_order_release);
  ++activity_;
  unheard_ = true;
}

void Endpoint::publish_produced(std::uint64_t chunks) {
  publish(segment_.progress(rank_).produced, chunks);
  flush();
}

void Endpoint::publish_reduced(std::uint64_t chunks) {
  publish(segment_.progress(rank_).reduced, chunks);
  flush();
}

void Endpoint::publish_consumed(std::uint64_t chunks) {
  consumed_ = chunks;
  publish(segment_.released(rank_).consumed, chunks);
}

void Endpoint::publish_direct(std::uint64_t sequence) {
  publish(segment_.progress(rank_).direct, sequence);
  flush();
}

void Endpoint::flush() {
  if (!unheard_) return;
  unheard_ = false;
  wake_sleepers(segment_, rank_);
}

std::vector<int> Endpoint::ranks_not_completed(std::uint64_t sequence) const {
  std::vector<int> ranks;
  const auto headers = static_cast<std::uint64_t>(geometry().headers);
  for (int rank = 0; rank < size(); ++rank) {
    if (rank != rank_ && segment_.released(rank).completed.load(std::memory_order_acquire) + headers < sequence) {
      ranks.push_back(rank);
    }
  }
  return ranks;
}

std::vector<int> Endpoint::ranks_not_consumed(std::uint64_t chunk) const {
  std::vector<int> ranks;
  const auto buffers = static_cast<std::uint64_t>(geometry().chunks);
  for (int rank = 0; rank < size(); ++rank) {
    if (rank != rank_ && segment_.released(rank).consumed.load(std::memory_order_acquire) + buffers <= chunk) {
      ranks.push_back(rank);
    }
  }
  return ranks;
}

}  // namespace lockstep::shm
