// Sharding rules and their signatures, the ways to divide one operator's work along one mesh axis; and helpers of rules
// to construct signatures. Pure.
#pragma once

#include <lockstep/global/global_tensor.h>
#include <lockstep/global/rules/op_call.h>

#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::global {

/// If the inputs have these placements, each rank can compute on its parts (with small collectives inside the
/// operator's local form, if necessary), and the results have these placements. An input that is nullopt may have any
/// placement.
struct Signature {
  std::vector<std::optional<Placement>> inputs;  ///< one for each of OpCall::tensors
  std::vector<Placement> outputs;                ///< one for each of OpCall::outputs
  /// The sharded dimensions may have different sizes, but have the same number of groups, which divide evenly. If
  /// false, the sharded dimensions of all inputs must have the same size, or the call is invalid.
  bool in_groups = false;
};

/// All inputs and outputs replicated: valid for every operator, and the first choice when nothing else is cheaper.
Signature replicated(const OpCall& call);

/// The sharding rule of an operator, in all its overloads, in-place and out variants.
struct Rule {
  std::string_view op;
  /// The signatures other than `replicated`, in order of preference. Only called with known output shapes. Both
  /// functions may throw std::out_of_range for arguments that libtorch rejects.
  std::vector<Signature> (*signatures)(const OpCall& call) = nullptr;
  /// Shapes of the results, for operators that have no kernel for tensors without data (meta tensors).
  std::vector<Sizes> (*shapes)(const OpCall& call) = nullptr;
  /// Arguments named ..._lengths are the lengths of a batch's sequences, which change with every batch. Signatures and
  /// shapes may depend only on their number and on the largest.
  bool has_lengths = false;
  bool needs_all = false;     ///< the result depends on every element: gathering is necessary, and is not reported as a
                              ///< missing rule
  std::string_view supports;  ///< for the table in the documentation: the dimensions that may be sharded
};

/// The rule of an operator; nullptr if it has no rule: then inputs are replicated.
const Rule* find_rule(std::string_view op);

struct RuleFamily {
  std::string_view title;
  std::span<const Rule> rules;
};
std::vector<RuleFamily> rule_families();

/// All rules, in the order of the families.
std::vector<Rule> all_rules();

// The families; a file has one, or two that are alike.
std::span<const Rule> elementwise_rules();
std::span<const Rule> matmul_rules();
std::span<const Rule> reduction_rules();
std::span<const Rule> view_rules();
std::span<const Rule> strided_rules();
std::span<const Rule> indexing_rules();
std::span<const Rule> factory_rules();
std::span<const Rule> batched_product_rules();
std::span<const Rule> convolution_rules();
std::span<const Rule> pooling_rules();
std::span<const Rule> normalization_rules();
std::span<const Rule> softmax_rules();
std::span<const Rule> loss_rules();
std::span<const Rule> embedding_rules();

// What rules construct signatures with; inputs that are not named are replicated.

struct PlacedInput {
  std::string_view argument;
  std::optional<Placement> placement;  ///< nullopt: any placement
};

/// A signature from inputs by their names in the schema; those that the call does not have are ignored.
Signature placing(const OpCall& call, std::initializer_list<PlacedInput> inputs, std::vector<Placement> outputs);

/// A signature in which all given tensor arguments, and all results, have this placement.
Signature placing_all(const OpCall& call, const Placement& placement);

/// The broadcast shape of the given tensors from index `first` on.
TensorInfo broadcast(const OpCall& call, std::size_t first = 0);

/// The placement that an input, broadcast to `output`, needs when the output is sharded along `output_dim`.
std::optional<Placement> shard_like_output(const TensorInfo& input, const TensorInfo& output, std::int64_t output_dim);

/// One signature for each dimension of `shape` with more than one row: all inputs, which are broadcast to it, and all
/// outputs are sharded along that dimension.
std::vector<Signature> shards_of(const OpCall& call, const TensorInfo& shape);

/// The same for the shape of the output.
std::vector<Signature> shards_of_elementwise(const OpCall& call);

/// The shape of the single result, for operators without a meta kernel in libtorch.
std::vector<Sizes> broadcast_shape(const OpCall& call);

/// The text of docs/global.md from the note on, that it is generated, to the end.
std::string ops_page();

}  // namespace lockstep::global
