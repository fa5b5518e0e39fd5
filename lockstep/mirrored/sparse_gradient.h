// Sparse gradients of embedding tables as rows by their ids, and the exchange of these rows between ranks.
#pragma once

#include <lockstep/comm/group.h>
#include <lockstep/rows/sparse_rows.h>

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace torch::nn {
class Module;
}

namespace lockstep::mirrored {

/// The tables of the module's embeddings (Embedding, EmbeddingBag) that have sparse gradients.
std::vector<at::Tensor> sparse_tables(const torch::nn::Module& module);

/// The rows of a sparse gradient, those of one id added up in the order in which they occur. Error(unsupported) unless
/// it is float32 on the CPU with one sparse dimension.
rows::SparseRows rows_of(const at::Tensor& sparse);

/// A sparse gradient of these rows, coalesced, for a parameter of that shape.
at::Tensor sparse_gradient_of(const rows::SparseRows& rows, at::IntArrayRef sizes);

/// Writes a sparse gradient into a dense tensor of its shape: the sums of rows_of if it supports the gradient, else
/// those of libtorch; zeros elsewhere.
void write_dense(const at::Tensor& sparse, const at::Tensor& dense);

/// The numbers of a gradient: a dense gradient itself, or the coalesced values of the rows of a sparse one. Shares
/// memory.
at::Tensor numbers_of(const at::Tensor& gradient);

/// Coalesces each sparse gradient that libtorch left uncoalesced, with the sums of rows_of, or makes it dense if
/// `dense`.
void settle_sparse_gradients(const std::vector<at::Tensor>& parameters, bool dense);

/// A parameter whose gradient is exchanged as rows, on this rank.
struct RowSlot {
  std::string name;
  at::Tensor parameter;
  std::string form;      ///< dtype and sizes of the parameter when the reducer was made
  bool used = false;     ///< got a gradient since the last round
  bool reduced = false;  ///< `.grad()` is a result of all ranks, and nothing was added to it since
};

/// To be called before a gradient is added, if gradients are summed over ranks: see share_old_sum.
void share_old_rows(RowSlot& slot, int ranks);

/// Error(unsupported) naming the parameter when its gradient is dense.
void require_rows(const RowSlot& slot);

/// Makes `.grad()` the mean (or sum) over ranks, with the rows that any of them has: the numbers of a reduction of
/// whole tables (rows::sum_over_ranks). Parameters that no rank used keep their `.grad()`. Three all_gathers for all
/// slots together: numbers of rows, ids (8 bytes), values; each rank sends as many rows as the rank with the most. A
/// collective; with `gave_up` this rank sends no rows.
void exchange_rows(std::vector<RowSlot>& slots, bool gave_up, bool mean, const Group& group);

}  // namespace lockstep::mirrored
