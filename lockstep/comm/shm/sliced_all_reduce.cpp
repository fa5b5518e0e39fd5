// The all_reduce of large tensors in shared memory, by chunks: stage, reduce this rank's slice, collect the others'.
#include <lockstep/comm/shm/sliced_all_reduce.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace lockstep::shm {

Slice slice_of(std::size_t bytes, int rank, int ranks) {
  const auto n = static_cast<std::size_t>(ranks);
  const std::size_t each = ((bytes + n - 1) / n + kLine - 1) / kLine * kLine;
  const std::size_t begin = std::min(bytes, static_cast<std::size_t>(rank) * each);
  return {begin, std::min(bytes, begin + each)};
}

SlicedAllReduce::SlicedAllReduce(const Signature& signature, const Place& place, std::byte* data, std::size_t bytes,
                                 std::size_t item_bytes, ReduceKernel kernel)
    : Collective(signature, place), data_(data), bytes_(bytes), item_bytes_(item_bytes), kernel_(kernel) {}

std::uint64_t SlicedAllReduce::chunk_count(const Endpoint& endpoint) const {
  const auto chunk = static_cast<std::size_t>(endpoint.geometry().chunk_bytes);
  return (bytes_ + chunk - 1) / chunk;
}

SlicedAllReduce::Range SlicedAllReduce::piece(const Endpoint& endpoint, std::uint64_t index) const {
  const auto chunk = static_cast<std::size_t>(endpoint.geometry().chunk_bytes);
  const std::size_t first = index * chunk;
  return {first, std::min(chunk, bytes_ - first)};
}

void SlicedAllReduce::stage(Endpoint& endpoint, std::uint64_t index) {
  const auto [first, count] = piece(endpoint, index);
  std::byte* const target = endpoint.segment().stage(endpoint.rank(), first_chunk() + index);
  // No other rank reads this rank's own slice.
  const Slice mine = slice_of(count, endpoint.rank(), endpoint.size());
  std::memcpy(target, data_ + first, mine.begin);
  std::memcpy(target + mine.end, data_ + first + mine.end, count - mine.end);
}

bool SlicedAllReduce::can_reduce(const Endpoint& endpoint) const {
  // An earlier collective's chunks come first, because `reduced` and `consumed` are counted over all collectives.
  if (reduced_ == staged() || endpoint.consumed() < first_chunk()) return false;
  for (int rank = 0; rank < endpoint.size(); ++rank) {
    if (!is_staged(endpoint, rank, reduced_)) return false;
  }
  return true;
}

void SlicedAllReduce::reduce_piece(Endpoint& endpoint) {
  const int me = endpoint.rank();
  const auto [first, count] = piece(endpoint, reduced_);
  const Slice mine = slice_of(count, me, endpoint.size());
  if (mine.begin < mine.end) {
    const std::uint64_t chunk = first_chunk() + reduced_;
    std::array<const std::byte*, kMaxRanks> sources;
    for (int rank = 0; rank < endpoint.size(); ++rank) {
      sources[static_cast<std::size_t>(rank)] =
          (rank == me ? data_ + first : endpoint.segment().stage(rank, chunk)) + mine.begin;
    }
    const std::array<std::byte*, 2> targets = {data_ + first + mine.begin,
                                               endpoint.segment().stage(me, chunk) + mine.begin};
    kernel_(sources.data(), endpoint.size(), targets.data(), 2, (mine.end - mine.begin) / item_bytes_);
  }
  ++reduced_;
  endpoint.publish_reduced(first_chunk() + reduced_);
}

bool SlicedAllReduce::is_reduced(const Endpoint& endpoint, int rank, std::uint64_t index) const {
  return endpoint.segment().progress(rank).reduced.load(std::memory_order_acquire) > first_chunk() + index;
}

bool SlicedAllReduce::can_collect(const Endpoint& endpoint) const {
  if (collected_ == reduced_) return false;
  for (int rank = 0; rank < endpoint.size(); ++rank) {
    if (!is_reduced(endpoint, rank, collected_)) return false;
  }
  return true;
}

void SlicedAllReduce::collect_piece(Endpoint& endpoint) {
  const auto [first, count] = piece(endpoint, collected_);
  const std::uint64_t chunk = first_chunk() + collected_;
  for (int rank = 0; rank < endpoint.size(); ++rank) {
    if (rank == endpoint.rank()) continue;
    const Slice theirs = slice_of(count, rank, endpoint.size());
    std::memcpy(data_ + first + theirs.begin, endpoint.segment().stage(rank, chunk) + theirs.begin,
                theirs.end - theirs.begin);
  }
  ++collected_;
  endpoint.publish_consumed(chunk + 1);
}

bool SlicedAllReduce::advance_staged(Endpoint& endpoint) {
  while (collected_ < chunks()) {
    // The oldest piece first: it is still in the cache, and its completion frees a buffer.
    if (can_collect(endpoint)) {
      collect_piece(endpoint);
    } else if (can_reduce(endpoint)) {
      reduce_piece(endpoint);
    } else if (!stage_next(endpoint)) {
      return false;
    }
  }
  return true;
}

void SlicedAllReduce::share_in_place(Endpoint& endpoint) {
  reduce_slice_in_place(endpoint, bytes_, item_bytes_, kernel_,
                        [&](int rank) { return shared_address(endpoint, rank); });
}

std::vector<Lack> SlicedAllReduce::staged_lacks(const Endpoint& endpoint) const {
  Lack not_staged{{}, "has not sent its data"};
  Lack not_reduced{{}, "has not reduced its slice"};
  for (int rank = 0; rank < endpoint.size(); ++rank) {
    if (rank == endpoint.rank()) continue;
    if (reduced_ < chunks() && !is_staged(endpoint, rank, reduced_)) not_staged.ranks.push_back(rank);
    if (collected_ < reduced_ && !is_reduced(endpoint, rank, collected_)) not_reduced.ranks.push_back(rank);
  }
  return {not_reduced, not_staged, staging_lack(endpoint)};
}

}  // namespace lockstep::shm
