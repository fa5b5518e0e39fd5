// Sparse gradients of embedding tables as rows by their ids.
#pragma once

#include <lockstep/rows/sparse_rows.h>

#include <ATen/core/Tensor.h>

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

}  // namespace lockstep::mirrored
