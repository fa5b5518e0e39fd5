// Memory shared between processes: anonymous files, which disappear with the last process that has them open or mapped;
// and the layout of the segment of such memory that all ranks of a group share.
//
// In the segment every word has one writer, its rank, unless stated otherwise; the other ranks read it. Counters only
// grow. Plain data is published by the release store of a counter that is documented as such, and read after an acquire
// load of it.
#pragma once

#include <lockstep/base/unique_fd.h>
#include <lockstep/comm/collectives.h>
#include <lockstep/comm/reduction/kernels.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace lockstep::shm {

using reduction::DType;
using reduction::reduce_kernel;
using reduction::ReduceKernel;

enum class Kind : std::uint8_t {
  barrier,
  exchange,
  allocate,
  all_reduce,
  reduce,
  broadcast,
  all_gather,
  reduce_scatter,
  all_to_all,
  gather,
  scatter,
  refused,  ///< entered in place of a call whose arguments break a rule
};

std::string_view name(Kind kind);

/// Each rank's description of a collective in shared memory: plain bytes without padding.
struct Signature {
  static constexpr int kMaxDims = 8;

  Kind kind = Kind::barrier;
  DType dtype = DType::other;
  std::uint8_t op = 0;    ///< ReduceOp, where there is one
  std::uint8_t dims = 0;  ///< used entries of `sizes`
  std::int32_t root = -1;
  std::uint64_t trace = 0;  ///< hash of the caller's trace (comm/operator_trace.h), 0: none
  std::uint64_t step = 0;   ///< number of the step on this trace
  std::array<std::int64_t, kMaxDims> sizes{};

  /// Stores the shape; the product of all dimensions from the eighth on is stored as one value.
  void set_sizes(std::span<const std::int64_t> all);
  bool operator==(const Signature&) const = default;
};

/// Two different signatures have the same hash with a probability of about 2^-64.
std::uint64_t hash(const Signature& signature);

/// "all_reduce sum of float32[2, 3]", "broadcast of int64[4] from 1", "barrier".
std::string describe(const Signature& signature);

inline constexpr std::size_t kLine = 64;
inline constexpr int kMaxRanks = 512;

/// Sizes on which all ranks of a group agree; rank 0 decides. Tests make them small to reach every boundary.
struct Geometry {
  std::int32_t ranks = 1;
  std::int32_t headers = 64;              ///< collectives by which a rank may be ahead of the slowest
  std::int64_t chunk_bytes = 256 << 10;   ///< staging uses pieces of this size; a multiple of 64
  std::int64_t chunks = 4;                ///< pieces that each rank can have in staging buffers
  std::int64_t channel_bytes = 64 << 10;  ///< between each pair, for send and receive; a power of two
  std::int64_t whole_bytes = 8 << 10;  ///< all_reduce through staging up to here: each rank reduces everything, at once
  std::int64_t direct_bytes = 8 << 10;  ///< from this size on memory of `allocate` is used in place
};

/// The sizes that measurements showed to be fastest. With two ranks, a reduction of only half per rank does not reduce
/// the exchanged bytes, but needs two waits for the other rank.
Geometry geometry_for(int ranks);

/// One collective as one rank entered it. `sequence` is stored last, so the rest may be read once it is set, until this
/// rank enters sequence + Geometry::headers, which it does only when all ranks have completed this one.
struct alignas(kLine) Header {
  std::atomic<std::uint64_t> sequence;
  std::uint64_t hash;         ///< of the signature
  std::uint64_t consumed;     ///< copy of Released::consumed, so that other ranks rarely read that line
  std::uint64_t completed;    ///< copy of Released::completed
  std::uint64_t offset;       ///< of the input in `block`
  std::uint32_t block;        ///< the shared block of the input, 0: ordinary memory
  std::uint32_t holds_chunk;  ///< 1: the first chunk of the input is already staged
  alignas(kLine) Signature signature;
  std::array<char, 168> note;  ///< why the call was refused, with Kind::refused; ends with 0
};

/// The data that a rank has made available. Chunks are counted over all collectives: chunk c is in buffer c modulo
/// Geometry::chunks; `produced` c means that all below c have been written.
struct alignas(kLine) Progress {
  std::atomic<std::uint64_t> produced;  ///< chunks staged
  std::atomic<std::uint64_t> reduced;   ///< chunks of which this rank's slice holds the reduction
  std::atomic<std::uint64_t> direct;    ///< the last collective in which this rank completed its share in place
};

/// The data that a rank no longer needs.
struct alignas(kLine) Released {
  std::atomic<std::uint64_t> consumed;   ///< chunks of other ranks that it has finished with
  std::atomic<std::uint64_t> completed;  ///< collectives, all up to this one
};

struct alignas(kLine) Bell {
  std::atomic<std::uint32_t> word;  ///< the futex on which this rank sleeps; others change it to wake the rank
};

/// Ranks (bits) that sleep until this rank publishes something. They set their bit, this rank clears it.
struct alignas(kLine) Sleepers {
  std::array<std::atomic<std::uint64_t>, kMaxRanks / 64> ranks;
};

/// Why the group has failed. Written once, by the first rank that detects the failure.
struct alignas(kLine) Failure {
  enum State : std::uint32_t { none = 0, being_written = 1, ready = 2 };
  enum Cause : std::int32_t { died = 0, left = 1, gave_up = 2, wrong_size = 3 };
  std::atomic<std::uint32_t> state;
  std::int32_t cause;
  std::int32_t culprit;   ///< the rank that died, left or gave up
  std::int32_t reporter;  ///< the rank that reports it
};

/// A ring of bytes from one rank to another. Positions grow without limit and are taken modulo Geometry::channel_bytes.
struct RankChannel {
  struct Ends {
    alignas(kLine) std::atomic<std::uint64_t> written;  ///< by the sender
    alignas(kLine) std::atomic<std::uint64_t> read;     ///< by the receiver
  };
  Ends* ends;
  std::byte* ring;
  std::size_t bytes;
};

/// A view of a mapped segment; cheap to copy, owns nothing. A segment starts as zero bytes, which represent an atomic
/// zero, so no rank has to initialise it.
class Segment {
 public:
  Segment(std::byte* base, const Geometry& geometry);

  /// The number of bytes to map. Most of it is never accessed and so takes no memory.
  static std::size_t bytes(const Geometry& geometry);

  const Geometry& geometry() const { return geometry_; }
  int ranks() const { return geometry_.ranks; }

  Header& header(int rank, std::uint64_t sequence) const;
  Progress& progress(int rank) const { return block(rank).progress; }
  Released& released(int rank) const { return block(rank).released; }
  Bell& bell(int rank) const { return block(rank).bell; }
  Sleepers& sleepers(int rank) const { return block(rank).sleepers; }
  std::atomic<std::uint32_t>& left(int rank) const { return block(rank).left; }
  Failure& failure() const { return *reinterpret_cast<Failure*>(base_); }
  std::byte* stage(int rank, std::uint64_t chunk) const;
  RankChannel channel(int from, int to) const;

 private:
  struct RankBlock {
    Progress progress;
    Released released;
    Bell bell;
    Sleepers sleepers;
    alignas(kLine) std::atomic<std::uint32_t> left;  ///< 1: this rank has left the group
  };
  // Offsets from the start.
  struct Layout {
    explicit Layout(const Geometry& geometry);
    std::size_t rank_stride;
    std::size_t stages;
    std::size_t channels;
    std::size_t end;
  };
  RankBlock& block(int rank) const;

  std::byte* base_;
  Geometry geometry_;
  Layout layout_;
};

inline constexpr std::size_t kPage = 4096;

/// The smallest multiple of `unit` that is not below `value`.
constexpr std::uint64_t round_up(std::uint64_t value, std::uint64_t unit) { return (value + unit - 1) / unit * unit; }

/// A mapped range; unmapped by the destructor.
class Mapping {
 public:
  Mapping() = default;
  /// Maps [offset, offset + bytes) of `fd` for reading and writing, at an address that is a multiple of `alignment` (a
  /// power of two, at least a page). Error(io) when the address space is too small.
  Mapping(int fd, std::uint64_t offset, std::size_t bytes, std::size_t alignment = kPage);
  Mapping(Mapping&& other) noexcept : data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_) {}
  Mapping& operator=(Mapping&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping();

  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

/// A memory file without a name, of `bytes` zeros that take no memory until they are accessed. It is not part of
/// /dev/shm, and its only limit is the memory of the machine. Error(unsupported) where the kernel has no memfd_create.
UniqueFd make_memory_file(const std::string& label, std::uint64_t bytes);

/// Allocates real memory for [offset, offset + bytes) of the file now, and grows the file if necessary, so that a lack
/// of memory is an error here and not a signal later. Returns 0 or an errno.
int commit(int fd, std::uint64_t offset, std::size_t bytes) noexcept;

/// Returns this memory to the system; the range reads as zeros afterwards.
void release(int fd, std::uint64_t offset, std::size_t bytes) noexcept;

inline constexpr std::size_t kHugePage = 2 << 20;

/// Sets up the page tables of committed memory in advance, with huge pages where the kernel and the range allow it.
/// Only an optimization: does nothing where this is not possible.
void prepare(std::byte* data, std::size_t bytes) noexcept;

}  // namespace lockstep::shm
