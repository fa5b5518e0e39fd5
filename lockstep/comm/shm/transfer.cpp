// Collectives in one phase, by pattern (root, blocks, reduction): each rank stages its data and reads what it needs.
// And the all_reduce of large tensors, by chunks: stage, reduce this rank's slice, collect the others'.
#include <lockstep/comm/shm/transfer.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <span>

namespace lockstep::shm {

Pattern pattern_of(Kind kind) {
  switch (kind) {
    case Kind::barrier:
    case Kind::refused: return {};
    case Kind::exchange:
    case Kind::allocate:
    case Kind::all_gather: return {.blocks_out = true};
    case Kind::all_reduce: return {.reduces = true};
    case Kind::reduce: return {.to_root = true, .reduces = true};
    case Kind::broadcast: return {.from_root = true};
    case Kind::reduce_scatter: return {.blocks_in = true, .reduces = true};
    case Kind::all_to_all: return {.blocks_in = true, .blocks_out = true};
    case Kind::gather: return {.to_root = true, .blocks_out = true};
    case Kind::scatter: return {.from_root = true, .blocks_in = true};
  }
  fail(ErrorKind::invalid_argument, "shm", "unknown kind of collective {}", static_cast<int>(kind));
}

Transfer::Transfer(const Signature& signature, const Place& place, const Buffers& buffers, ReduceKernel kernel)
    : Collective(signature, place), pattern_(pattern_of(signature.kind)), buffers_(buffers), kernel_(kernel) {}

std::size_t Transfer::unit(const Endpoint& endpoint) const {
  const auto chunk = static_cast<std::size_t>(endpoint.geometry().chunk_bytes);
  if (!pattern_.blocks_in) return chunk;
  return chunk / static_cast<std::size_t>(endpoint.size()) / kLine * kLine;
}

Transfer::Range Transfer::range(const Endpoint& endpoint, std::uint64_t index) const {
  const std::size_t size = unit(endpoint);
  const std::size_t first = index * size;
  return {first, std::min(size, buffers_.block_bytes - first)};
}

std::uint64_t Transfer::chunk_count(const Endpoint& endpoint) const {
  const std::size_t size = unit(endpoint);
  return (buffers_.block_bytes + size - 1) / size;
}

void Transfer::stage(Endpoint& endpoint, std::uint64_t index) {
  const int me = endpoint.rank();
  if (!gives(me)) return;
  const auto [first, count] = range(endpoint, index);
  std::byte* const target = endpoint.segment().stage(me, first_chunk() + index);
  if (!pattern_.blocks_in) {
    std::memcpy(target, buffers_.input + first, count);
    return;
  }
  for (int rank = 0; rank < endpoint.size(); ++rank) {
    if (rank == me) continue;
    const auto block = static_cast<std::size_t>(rank);
    std::memcpy(target + block * unit(endpoint), buffers_.input + block * buffers_.block_bytes + first, count);
  }
}

template <typename Source>
void Transfer::take(const Endpoint& endpoint, Range range, const Source& source) {
  const int me = endpoint.rank();
  const std::byte* const own =
      buffers_.input + (pattern_.blocks_in ? static_cast<std::size_t>(me) * buffers_.block_bytes : 0) + range.first;
  const auto address = [&](int rank) { return rank == me ? own : source(rank); };
  if (pattern_.reduces) {
    std::array<const std::byte*, kMaxRanks> sources;
    for (int rank = 0; rank < endpoint.size(); ++rank) sources[static_cast<std::size_t>(rank)] = address(rank);
    std::byte* target = buffers_.output + range.first;
    const std::byte* const* from = sources.data();
    const std::array all = {endpoint.size()};
    const std::span<const int> parts =
        buffers_.parts.empty() ? std::span<const int>(all) : std::span<const int>(buffers_.parts);
    for (const int givers : parts) {
      kernel_(from, givers, &target, 1, range.count / buffers_.item_bytes);
      from += givers;
      target += buffers_.block_bytes;
    }
    return;
  }
  for (int rank = 0; rank < endpoint.size(); ++rank) {
    if (!gives(rank)) continue;
    std::byte* const target = buffers_.output +
                              (pattern_.blocks_out ? static_cast<std::size_t>(rank) * buffers_.block_bytes : 0) +
                              range.first;
    if (target != address(rank)) std::memcpy(target, address(rank), range.count);
  }
}

bool Transfer::can_take(const Endpoint& endpoint) const {
  // Chunks are consumed in order over all collectives, so that one counter shows which buffers are free.
  if (taken_ == staged() || endpoint.consumed() != first_chunk() + taken_) return false;
  if (!takes(endpoint.rank())) return true;
  for (int rank = 0; rank < endpoint.size(); ++rank) {
    if (gives(rank) && !is_staged(endpoint, rank, taken_)) return false;
  }
  return true;
}

bool Transfer::advance_staged(Endpoint& endpoint) {
  const int me = endpoint.rank();
  while (taken_ < chunks()) {
    // Taking first frees buffers for other ranks; staging first would fill this rank's buffers and then wait.
    if (can_take(endpoint)) {
      const Range taken = range(endpoint, taken_);
      const std::uint64_t chunk = first_chunk() + taken_;
      const std::size_t mine = pattern_.blocks_in ? static_cast<std::size_t>(me) * unit(endpoint) : 0;
      if (takes(me)) {
        take(endpoint, taken, [&](int rank) { return endpoint.segment().stage(rank, chunk) + mine; });
      }
      ++taken_;
      endpoint.publish_consumed(chunk + 1);
    } else if (!stage_next(endpoint)) {
      return false;
    }
  }
  return true;
}

void Transfer::share_in_place(Endpoint& endpoint) {
  const int me = endpoint.rank();
  if (signature().kind == Kind::all_reduce) {
    // The other ranks read its output.
    return reduce_slice_in_place(endpoint, buffers_.block_bytes, buffers_.item_bytes, kernel_,
                                 [&](int rank) { return shared_address(endpoint, rank); });
  }
  if (!takes(me)) return;
  const std::size_t mine = pattern_.blocks_in ? static_cast<std::size_t>(me) * buffers_.block_bytes : 0;
  take(endpoint, {0, buffers_.block_bytes}, [&](int rank) { return shared_address(endpoint, rank) + mine; });
}

std::vector<int> Transfer::not_staged(const Endpoint& endpoint) const {
  std::vector<int> ranks;
  if (taken_ == chunks() || !takes(endpoint.rank())) return ranks;
  for (int rank = 0; rank < endpoint.size(); ++rank) {
    if (rank != endpoint.rank() && gives(rank) && !is_staged(endpoint, rank, taken_)) ranks.push_back(rank);
  }
  return ranks;
}

std::vector<Lack> Transfer::staged_lacks(const Endpoint& endpoint) const {
  return {{not_staged(endpoint), "has not sent its data"}, staging_lack(endpoint)};
}

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
