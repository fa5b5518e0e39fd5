// Sums of sparse rows: by id in order of occurrence, and over ranks by the caller's tree, in blocks to save memory.
#include <lockstep/rows/sparse_rows.h>

#include <algorithm>
#include <numeric>

namespace lockstep::rows {
namespace {

constexpr std::size_t kNumbersOfBlock = 8192;

std::vector<std::int64_t> all_ids(std::span<const SparseRowsView> ranks) {
  std::vector<std::int64_t> ids;
  for (const auto& rank : ranks) {
    std::vector<std::int64_t> both;
    both.reserve(ids.size() + rank.ids.size());
    std::ranges::set_union(ids, rank.ids, std::back_inserter(both));
    ids = std::move(both);
  }
  return ids;
}

/// The rows of `part` at the places of `ids`, which include its own ids, with +0.0 elsewhere.
void spread(const SparseRowsView& part, std::span<const std::int64_t> ids, std::size_t dim, float* out) {
  std::size_t own = 0;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (own < part.ids.size() && part.ids[own] == ids[i]) {
      std::copy_n(part.values + own * dim, dim, out + i * dim);
      ++own;
    } else {
      std::fill_n(out + i * dim, dim, 0.0F);
    }
  }
}

/// Writes the sum over `ranks`, in the order of the tree, to `out`.
void add_tree(std::span<const SparseRowsView> ranks, std::span<const std::int64_t> ids, std::size_t dim,
              const std::function<int(int)>& left_of, float* out) {
  if (ranks.size() == 1) return spread(ranks.front(), ids, dim, out);
  const auto left = static_cast<std::size_t>(left_of(static_cast<int>(ranks.size())));
  add_tree(ranks.first(left), ids, dim, left_of, out);
  std::vector<float> right(ids.size() * dim);
  add_tree(ranks.subspan(left), ids, dim, left_of, right.data());
  for (std::size_t i = 0; i < right.size(); ++i) out[i] += right[i];
}

}  // namespace

SparseRows sum_by_id(std::span<const std::int64_t> ids, const float* values, std::size_t dim) {
  std::vector<std::size_t> order(ids.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return ids[i]; });
  SparseRows sums;
  sums.values.reserve(ids.size() * dim);
  for (const auto i : order) {
    if (sums.ids.empty() || sums.ids.back() != ids[i]) {
      sums.ids.push_back(ids[i]);
      sums.values.resize(sums.values.size() + dim, 0.0F);
    }
    float* sum = sums.values.data() + (sums.ids.size() - 1) * dim;
    const float* row = values + i * dim;
    for (std::size_t k = 0; k < dim; ++k) sum[k] += row[k];
  }
  return sums;
}

void sum_blocks_over_ranks(std::span<const SparseRowsView> ranks, std::size_t dim,
                           const std::function<int(int)>& left_of, float divisor, const UseRows& use) {
  const auto ids = all_ids(ranks);
  const auto rows_of_block = std::max<std::size_t>(1, kNumbersOfBlock / dim);
  std::vector<SparseRowsView> left(ranks.begin(), ranks.end()), parts(ranks.size());
  std::vector<float> sums(std::min(rows_of_block, ids.size()) * dim);
  for (std::size_t first = 0; first < ids.size(); first += rows_of_block) {
    const auto block = std::span(ids).subspan(first, std::min(rows_of_block, ids.size() - first));
    for (std::size_t rank = 0; rank < left.size(); ++rank) {
      auto& of_rank = left[rank];
      const auto end = std::ranges::upper_bound(of_rank.ids, block.back());
      const auto count = static_cast<std::size_t>(end - of_rank.ids.begin());
      parts[rank] = {of_rank.ids.first(count), of_rank.values};
      of_rank = {of_rank.ids.subspan(count), of_rank.values + count * dim};
    }
    add_tree(parts, block, dim, left_of, sums.data());
    if (divisor != 1) {
      for (std::size_t i = 0; i < block.size() * dim; ++i) sums[i] /= divisor;
    }
    use(block, sums.data());
  }
}

SparseRows sum_over_ranks(std::span<const SparseRowsView> ranks, std::size_t dim,
                          const std::function<int(int)>& left_of, float divisor) {
  SparseRows sums;
  sum_blocks_over_ranks(ranks, dim, left_of, divisor, [&](std::span<const std::int64_t> ids, const float* values) {
    sums.ids.insert(sums.ids.end(), ids.begin(), ids.end());
    sums.values.insert(sums.values.end(), values, values + ids.size() * dim);
  });
  return sums;
}

}  // namespace lockstep::rows
