#include <lockstep/comm/shm/segment.h>

#include <limits>

namespace lockstep::shm {
namespace {

constexpr std::size_t kPage = 4096;

constexpr std::size_t round_up(std::size_t bytes, std::size_t unit) { return (bytes + unit - 1) / unit * unit; }

std::size_t stage_bytes(const Geometry& g) { return static_cast<std::size_t>(g.chunks * g.chunk_bytes); }

std::size_t channel_stride(const Geometry& g) {
  return round_up(sizeof(Channel::Ends) + static_cast<std::size_t>(g.channel_bytes), kPage);
}

}  // namespace

static_assert(std::atomic<std::uint64_t>::is_always_lock_free && std::atomic<std::uint32_t>::is_always_lock_free,
              "atomics with hidden locks do not work between processes");

Geometry geometry_for(int ranks) {
  Geometry geometry{.ranks = ranks};
  if (ranks <= 2) {
    geometry.whole_bytes = std::numeric_limits<std::int64_t>::max();
    geometry.direct_bytes = 4 << 10;
  }
  return geometry;
}

Segment::Layout::Layout(const Geometry& geometry)
    : rank_stride(round_up(sizeof(RankBlock) + static_cast<std::size_t>(geometry.headers) * sizeof(Header), kPage)) {
  const auto ranks = static_cast<std::size_t>(geometry.ranks);
  stages = kPage + ranks * rank_stride;
  channels = stages + round_up(ranks * stage_bytes(geometry), kPage);
  end = channels + ranks * ranks * channel_stride(geometry);
}

Segment::Segment(std::byte* base, const Geometry& geometry) : base_(base), geometry_(geometry), layout_(geometry) {}

std::size_t Segment::bytes(const Geometry& geometry) { return Layout(geometry).end; }

Segment::RankBlock& Segment::block(int rank) const {
  return *reinterpret_cast<RankBlock*>(base_ + kPage + static_cast<std::size_t>(rank) * layout_.rank_stride);
}

Header& Segment::header(int rank, std::uint64_t sequence) const {
  auto* headers = reinterpret_cast<Header*>(reinterpret_cast<std::byte*>(&block(rank)) + sizeof(RankBlock));
  return headers[sequence % static_cast<std::uint64_t>(geometry_.headers)];
}

std::byte* Segment::stage(int rank, std::uint64_t chunk) const {
  const std::uint64_t buffer = chunk % static_cast<std::uint64_t>(geometry_.chunks);
  return base_ + layout_.stages + static_cast<std::size_t>(rank) * stage_bytes(geometry_) +
         buffer * static_cast<std::uint64_t>(geometry_.chunk_bytes);
}

Channel Segment::channel(int from, int to) const {
  const auto index =
      static_cast<std::size_t>(from) * static_cast<std::size_t>(geometry_.ranks) + static_cast<std::size_t>(to);
  std::byte* const start = base_ + layout_.channels + index * channel_stride(geometry_);
  return {reinterpret_cast<Channel::Ends*>(start), start + sizeof(Channel::Ends),
          static_cast<std::size_t>(geometry_.channel_bytes)};
}

}  // namespace lockstep::shm
