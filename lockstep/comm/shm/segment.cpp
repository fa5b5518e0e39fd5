// Shared memory by memfd_create: aligned mappings, pages committed and released by fallocate, huge pages by madvise;
// the addresses of headers, stages and channels in the segment; and the signatures of calls with their hash and text.
#include <lockstep/base/error.h>
#include <lockstep/comm/shm/segment.h>

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <limits>
#include <system_error>
#include <type_traits>

namespace lockstep::shm {

std::string_view name(Kind kind) {
  switch (kind) {
    case Kind::barrier: return "barrier";
    case Kind::exchange: return "exchange";
    case Kind::allocate: return "allocate";
    case Kind::all_reduce: return "all_reduce";
    case Kind::reduce: return "reduce";
    case Kind::broadcast: return "broadcast";
    case Kind::all_gather: return "all_gather";
    case Kind::reduce_scatter: return "reduce_scatter";
    case Kind::all_to_all: return "all_to_all";
    case Kind::gather: return "gather";
    case Kind::scatter: return "scatter";
    case Kind::refused: return "refused";
  }
  return "?";
}

namespace {

// The library's own name(ReduceOp) is defined with the tensors, which this core does not use.
std::string_view name_of(ReduceOp op) {
  constexpr std::array<std::string_view, 5> kNames = {"sum", "mean", "min", "max", "product"};
  const auto index = static_cast<std::size_t>(op);
  return index < kNames.size() ? kNames[index] : "?";
}

}  // namespace

void Signature::set_sizes(std::span<const std::int64_t> all) {
  dims = static_cast<std::uint8_t>(std::min<std::size_t>(all.size(), kMaxDims));
  for (std::size_t i = 0; i < dims; ++i) sizes[i] = all[i];
  for (std::size_t i = kMaxDims; i < all.size(); ++i) sizes[kMaxDims - 1] *= all[i];
}

std::uint64_t hash(const Signature& signature) {
  static_assert(std::has_unique_object_representations_v<Signature>, "holes would be compared too");
  constexpr std::size_t kFixedWords = offsetof(Signature, sizes) / sizeof(std::uint64_t);
  static_assert(offsetof(Signature, sizes) % sizeof(std::uint64_t) == 0);
  std::array<std::uint64_t, sizeof(Signature) / sizeof(std::uint64_t)> words{};
  std::memcpy(words.data(), &signature, sizeof(Signature));
  // Multiplication by an odd constant and the shift are one-to-one, so a change in one word always changes the hash.
  // The first words hold the number of dimensions that follow; the others are 0.
  std::uint64_t h = 0;
  for (std::size_t i = 0; i < kFixedWords + signature.dims; ++i) {
    h = (h ^ words[i]) * 0x9e3779b97f4a7c15U;
    h ^= h >> 32;
  }
  return h;
}

namespace {

std::string describe_call(const Signature& signature) {
  const Kind kind = signature.kind;
  const std::string_view reduction = name_of(static_cast<ReduceOp>(signature.op));
  const std::span<const std::int64_t> sizes(signature.sizes.data(), signature.dims);
  const std::string tensor = fmt::format("{}[{}]", name(signature.dtype), fmt::join(sizes, ", "));
  switch (kind) {
    case Kind::barrier:
    case Kind::refused: return std::string(name(kind));
    case Kind::exchange:
    case Kind::allocate: return fmt::format("{} {}", name(kind), tensor);
    case Kind::all_reduce:
    case Kind::reduce_scatter: return fmt::format("{} {} of {}", name(kind), reduction, tensor);
    case Kind::reduce: return fmt::format("reduce {} of {} to {}", reduction, tensor, signature.root);
    case Kind::broadcast: return fmt::format("broadcast of {} from {}", tensor, signature.root);
    case Kind::gather: return fmt::format("gather of {} to {}", tensor, signature.root);
    case Kind::scatter: return fmt::format("scatter of slices {} from {}", tensor, signature.root);
    case Kind::all_gather:
    case Kind::all_to_all: break;
  }
  return fmt::format("{} of {}", name(kind), tensor);
}

}  // namespace

std::string describe(const Signature& signature) {
  const auto call = describe_call(signature);
  return signature.trace == 0 ? call : fmt::format("{} in global operator {}", call, signature.step);
}

namespace {

std::size_t stage_bytes(const Geometry& g) { return static_cast<std::size_t>(g.chunks * g.chunk_bytes); }

std::size_t channel_stride(const Geometry& g) {
  return round_up(sizeof(RankChannel::Ends) + static_cast<std::size_t>(g.channel_bytes), kPage);
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

RankChannel Segment::channel(int from, int to) const {
  const auto index =
      static_cast<std::size_t>(from) * static_cast<std::size_t>(geometry_.ranks) + static_cast<std::size_t>(to);
  std::byte* const start = base_ + layout_.channels + index * channel_stride(geometry_);
  return {reinterpret_cast<RankChannel::Ends*>(start), start + sizeof(RankChannel::Ends),
          static_cast<std::size_t>(geometry_.channel_bytes)};
}

namespace {

std::string reason(int error) { return std::generic_category().message(error); }

// Newer than the headers of some systems on which Lockstep runs.
constexpr int kMadvisePopulateWrite = 23;
constexpr int kMadviseCollapse = 25;

}  // namespace

Mapping::Mapping(int fd, std::uint64_t offset, std::size_t bytes, std::size_t alignment) : bytes_(bytes) {
  // Reserve more than needed, map over the aligned part, and unmap the rest.
  const std::size_t reserved = bytes + alignment;
  void* const room = ::mmap(nullptr, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED) {
    fail(ErrorKind::io, "shm", "cannot reserve {} bytes of addresses: {}; is `ulimit -v` too low?", reserved,
         reason(errno));
  }
  auto* const start = static_cast<std::byte*>(room);
  const auto address = reinterpret_cast<std::uintptr_t>(room);
  const std::size_t before = (alignment - address % alignment) % alignment;
  const int flags = MAP_SHARED | MAP_FIXED;
  if (::mmap(start + before, bytes, PROT_READ | PROT_WRITE, flags, fd, static_cast<off_t>(offset)) == MAP_FAILED) {
    const int error = errno;
    ::munmap(room, reserved);
    fail(ErrorKind::io, "shm", "cannot map {} bytes of shared memory: {}", bytes, reason(error));
  }
  if (before > 0) ::munmap(start, before);
  const std::size_t end = (before + bytes + 4095) / 4096 * 4096;
  if (end < reserved) ::munmap(start + end, reserved - end);
  data_ = start + before;
}

Mapping::~Mapping() {
  if (data_ != nullptr) ::munmap(data_, bytes_);
}

UniqueFd make_memory_file(const std::string& label, std::uint64_t bytes) {
  UniqueFd fd(::memfd_create(label.c_str(), MFD_CLOEXEC));
  if (!fd) {
    fail(ErrorKind::unsupported, "shm", "cannot make shared memory (memfd_create): {}; use backend tcp", reason(errno));
  }
  if (::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) {
    fail(ErrorKind::io, "shm", "cannot make {} bytes of shared memory: {}", bytes, reason(errno));
  }
  return fd;
}

int commit(int fd, std::uint64_t offset, std::size_t bytes) noexcept {
  for (;;) {
    if (::fallocate(fd, 0, static_cast<off_t>(offset), static_cast<off_t>(bytes)) == 0) return 0;
    if (errno != EINTR) return errno;
  }
}

void release(int fd, std::uint64_t offset, std::size_t bytes) noexcept {
  const int mode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
  while (::fallocate(fd, mode, static_cast<off_t>(offset), static_cast<off_t>(bytes)) != 0 && errno == EINTR) {
  }
}

void prepare(std::byte* data, std::size_t bytes) noexcept {
  if (bytes >= kHugePage && ::madvise(data, bytes, kMadviseCollapse) == 0) return;
  (void)::madvise(data, bytes, kMadvisePopulateWrite);
}

}  // namespace lockstep::shm
