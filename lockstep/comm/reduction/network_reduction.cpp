// The schedule of a reduction by slices: pieces are exchanged, added up along the sum tree, and then sent to the ranks.
#include <lockstep/comm/reduction/network_reduction.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace lockstep::reduction {
namespace {

constexpr std::size_t kLine = 64;  // bytes: a multiple of every element

/// Up to this size one step with all bytes is faster than two steps with parts of them.
constexpr std::size_t kWhole = 64 << 10;  // bytes that arrive at a rank

/// The bytes of a slice in one exchange: large enough for the network, and small enough to be added up from the cache
/// after arrival.
constexpr std::size_t kPiece = 256 << 10;

/// Elements are combined in blocks whose partial sums stay in the first-level cache.
constexpr std::size_t kBlock = 4096;  // bytes

std::size_t up_to_line(std::size_t bytes) { return (bytes + kLine - 1) / kLine * kLine; }

}  // namespace

std::vector<std::vector<RankRange>> one_each(int size) {
  std::vector<std::vector<RankRange>> brought;
  for (int rank = 0; rank < size; ++rank) brought.push_back({{rank, 1}});
  return brought;
}

NetworkReduction::NetworkReduction(NetworkCall call) : call_(std::move(call)) {
  const auto ranks = static_cast<std::size_t>(size());
  plain_ = call_.brought == one_each(size());
  std::size_t summands = 0;
  for (const auto& trees : call_.brought) summands += trees.size();
  const std::size_t foreign = summands - brought_by(call_.rank).size();

  whole_ = call_.kind != ResultOf::reduce_scatter && summands * call_.bytes <= kWhole;
  const std::size_t even =
      call_.kind == ResultOf::reduce_scatter ? call_.bytes / ranks : up_to_line((call_.bytes + ranks - 1) / ranks);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    if (whole_) {
      slices_.push_back({0, gets_results(static_cast<int>(rank)) ? call_.bytes : 0});
    } else {
      slices_.push_back({std::min(call_.bytes, rank * even), std::min(call_.bytes, (rank + 1) * even)});
    }
  }
  std::size_t longest = 0;
  for (const auto& slice : slices_) longest = std::max(longest, slice.bytes());
  piece_bytes_ = std::max(kLine, up_to_line(whole_ ? longest : std::min(longest, kPiece)));
  pieces_ = static_cast<int>((longest + piece_bytes_ - 1) / piece_bytes_);

  // Not initialized, because the network writes it first.
  const std::size_t depth = pieces_ > 1 ? 2 : 1;
  received_bytes_ = foreign * piece_bytes_;
  if (slices_[static_cast<std::size_t>(call_.rank)].bytes() > 0) {
    received_ = std::make_unique_for_overwrite<std::byte[]>(depth * received_bytes_ + kLine);
  }
  if (call_.kind == ResultOf::reduce && !gets_results(call_.rank) && !whole_) {
    results_ = std::make_unique_for_overwrite<std::byte[]>(depth * piece_bytes_ + kLine);
  }
}

int NetworkReduction::exchanges() const {
  const bool hands_out = !whole_ && call_.kind != ResultOf::reduce_scatter;
  return hands_out ? pieces_ + 2 : pieces_;
}

NetworkReduction::Slice NetworkReduction::piece_of(int rank, int piece) const {
  const auto& slice = slices_[static_cast<std::size_t>(rank)];
  const std::size_t begin = std::min(slice.end, slice.begin + static_cast<std::size_t>(piece) * piece_bytes_);
  return {begin, std::min(slice.end, begin + piece_bytes_)};
}

// Whether `rank` receives the results of other ranks' slices.
bool NetworkReduction::gets_results(int rank) const {
  return call_.kind == ResultOf::all_reduce || (call_.kind == ResultOf::reduce && rank == call_.root);
}

// The contribution of `rank` to this rank's slice, in the `nth` of its subtrees.
const std::byte* NetworkReduction::source(int rank, std::size_t nth, int piece) const {
  if (rank == call_.rank) return call_.input + nth * call_.bytes + piece_of(rank, piece).begin;
  std::size_t before = nth;
  for (int other = 0; other < rank; ++other) {
    if (other != call_.rank) before += brought_by(other).size();
  }
  return received_.get() + static_cast<std::size_t>(piece % 2) * received_bytes_ + before * piece_bytes_;
}

// The address of this rank's slice in the result.
std::byte* NetworkReduction::result(int piece) {
  if (results_) return results_.get() + static_cast<std::size_t>(piece % 2) * piece_bytes_;
  const std::size_t begin = piece_of(call_.rank, piece).begin;
  return call_.output +
         (call_.kind == ResultOf::reduce_scatter ? begin - slices_[static_cast<std::size_t>(call_.rank)].begin : begin);
}

NetworkReduction::Exchange NetworkReduction::exchange(int k) {
  Exchange now;
  const int me = call_.rank;
  // Starts at the next rank, so that not all ranks send to the same rank at the same time.
  for (int step = 1; step < size(); ++step) {
    const int to = (me + step) % size();
    const int from = (me + size() - step) % size();
    // Results of the piece that was added up last, for the ranks that need them.
    if (const int done = k - 2; done >= 0 && !whole_) {
      const Slice mine = piece_of(me, done);
      if (gets_results(to) && mine.bytes() > 0) now.sends.push_back({result(done), mine.bytes(), to});
      const Slice theirs = piece_of(from, done);
      if (gets_results(me) && theirs.bytes() > 0) {
        now.receives.push_back({call_.output + theirs.begin, theirs.bytes(), from});
      }
    }
    if (k >= pieces_) continue;
    const Slice theirs = piece_of(to, k);
    for (std::size_t nth = 0; nth < brought_by(me).size() && theirs.bytes() > 0; ++nth) {
      // Only read, but engines take the address of data to send as non-const, like that of data to receive.
      auto* data = const_cast<std::byte*>(call_.input + nth * call_.bytes + theirs.begin);
      now.sends.push_back({data, theirs.bytes(), to});
    }
    const Slice mine = piece_of(me, k);
    for (std::size_t nth = 0; nth < brought_by(from).size() && mine.bytes() > 0; ++nth) {
      now.receives.push_back({const_cast<std::byte*>(source(from, nth, k)), mine.bytes(), from});
    }
  }
  return now;
}

void NetworkReduction::finished(int k) {
  if (k < pieces_ && piece_of(call_.rank, k).bytes() > 0) add_up(k);
}

void NetworkReduction::add_up(int piece) {
  const std::size_t bytes = piece_of(call_.rank, piece).bytes();
  std::byte* target = result(piece);
  if (plain_) {
    std::vector<const std::byte*> sources;
    for (int rank = 0; rank < size(); ++rank) sources.push_back(source(rank, 0, piece));
    return call_.kernel(sources.data(), size(), &target, 1, bytes / call_.item_bytes);
  }
  summands_.clear();
  int total = 0;
  for (int rank = 0; rank < size(); ++rank) {
    for (std::size_t nth = 0; nth < brought_by(rank).size(); ++nth) {
      const auto tree = brought_by(rank)[nth];
      summands_.push_back({tree, source(rank, nth, piece)});
      total = std::max(total, tree.first + tree.count);
    }
  }
  std::sort(summands_.begin(), summands_.end(),
            [](const Summand& a, const Summand& b) { return a.tree.first < b.tree.first; });
  std::size_t blocks = 2;
  for (int ranks = total; ranks > 1; ranks = (ranks + 1) / 2) blocks += 2;
  const auto scratch = std::make_unique_for_overwrite<std::byte[]>(blocks * kBlock);
  for (std::size_t at = 0; at < bytes; at += kBlock) {
    const std::size_t count = std::min(kBlock, bytes - at);
    const auto* sum = add_up({0, total}, at, count, target + at, scratch.get());
    if (sum != target + at) std::memmove(target + at, sum, count);
  }
}

// The sum of a subtree, which may be a single summand without a copy: `into` is used only where there is an addition.
const std::byte* NetworkReduction::add_up(RankRange tree, std::size_t at, std::size_t count, std::byte* into,
                                          std::byte* scratch) {
  const auto first = std::lower_bound(summands_.begin(), summands_.end(), tree.first,
                                      [](const Summand& one, int rank) { return one.tree.first < rank; });
  if (first->tree.count == tree.count) return first->data + at;
  const int left = left_of(tree.count);
  // Not into `into`, which may be this rank's own contribution.
  const std::byte* const sources[] = {
      add_up({tree.first, left}, at, count, scratch, scratch + kBlock),
      add_up({tree.first + left, tree.count - left}, at, count, scratch + kBlock, scratch + 2 * kBlock)};
  call_.kernel(sources, 2, &into, 1, count / call_.item_bytes);
  return into;
}

}  // namespace lockstep::reduction
