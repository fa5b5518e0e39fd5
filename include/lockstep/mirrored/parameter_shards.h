// Parameters divided among the ranks for the optimizer: each rank updates its own part and gets the others'.
#pragma once

#include <lockstep/comm/group.h>
#include <lockstep/mirrored/data_parallel.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace at {
class Tensor;
}

namespace lockstep {

/// The part of a module's trainable parameters that this rank updates, as a list of `pieces` to construct any
/// elementwise optimizer from (all of torch::optim but LBFGS). An update is then
///
///     shards.take_gradients();
///     optimizer.step();
///     shards.share();
///
/// which ShardedOptimizer does in one call. Gradients must be the same on all ranks and whole, as DataParallel leaves
/// them; parameters are equal on all ranks again when `share` returns. What the optimizer remembers (momentum) and
/// computes is 1/size of what it would be without shards, and pieces are small enough to stay in a core's cache while
/// it goes over them. Results are those of the whole optimizer.
///
/// Parameters stay where the module has them, but their memory moves into the group's; so construct it after the module
/// has its final dtype, device and memory format, and do not replace `.data()` later.
///
/// Not thread-safe. The constructor, `share` and `whole` are collectives. Errors: Error(unsupported) naming a parameter
/// with a sparse gradient; Error(invalid_argument) naming one whose memory was replaced; errors of the collectives.
class ParameterShards {
 public:
  explicit ParameterShards(const DataParallel& parallel);
  ~ParameterShards();
  ParameterShards(ParameterShards&&) noexcept;
  ParameterShards& operator=(ParameterShards&&) noexcept;
  ParameterShards(const ParameterShards&) = delete;
  ParameterShards& operator=(const ParameterShards&) = delete;

  /// One-dimensional tensors in the parameters' memory; those of one parameter follow each other.
  const std::vector<at::Tensor>& pieces() const;
  /// The pieces of some parameters only, for an optimizer with several groups.
  std::vector<at::Tensor> pieces_of(const std::vector<at::Tensor>& parameters) const;

  /// Zeros every parameter's whole `.grad()`, or removes it.
  void zero_gradients(bool set_to_none);

  /// Gives each piece its part of the parameter's `.grad()`, or none where there is none.
  void take_gradients();
  /// Removes the gradients from the pieces, and gets the parts that other ranks updated.
  void share();

  /// For saving and loading an optimizer's state. `of_pieces` has a tensor of its size for each piece, or an
  /// undefined one; returns one of each parameter's shape, undefined where no rank had one. A collective.
  std::vector<at::Tensor> whole(const std::vector<at::Tensor>& of_pieces) const;
  /// The reverse: copies of this rank's parts. Not a collective.
  std::vector<at::Tensor> parts(const std::vector<at::Tensor>& of_parameters) const;

  /// The parameters, in the order of `whole`: the module's, each once.
  const std::vector<at::Tensor>& parameters() const;
  /// The index in `parameters` of the parameter that a piece is part of.
  std::size_t owner(std::size_t piece) const;
  /// The position of a piece in its parameter's memory, in elements.
  struct Stretch {
    std::size_t parameter = 0;  ///< index in `parameters`
    std::int64_t begin = 0;
    std::int64_t elements = 0;
  };
  /// The stretches of the pieces that `rank` updates; `rank` is from 0 to size() - 1.
  std::vector<Stretch> stretches_of(int rank) const;
  const Group& group() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep
