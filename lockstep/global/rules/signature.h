// The description of an operator call for the sharding rules: names, numbers and logical shapes, no data; the rules and
// their signatures, the ways to divide one operator's work along one mesh axis; and helpers of rules to construct
// signatures. Pure.
#pragma once

#include <lockstep/global/global_tensor.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace lockstep::global {

// The call.

/// A list with checked access. Calls have the user's unchecked arguments: an index out of range (a dimension of a
/// tensor with fewer) throws std::out_of_range, which callers of rules treat as "not a call that the rule supports".
template <typename T>
class Checked : public std::vector<T> {
 public:
  using std::vector<T>::vector;
  Checked(std::vector<T> values) : std::vector<T>(std::move(values)) {}  // NOLINT(google-explicit-constructor)
  T& operator[](std::size_t index) { return this->at(index); }
  const T& operator[](std::size_t index) const { return this->at(index); }
};

using Sizes = Checked<std::int64_t>;

/// The properties of a tensor that a rule may use: its logical shape and dtype.
struct TensorInfo {
  Sizes sizes;
  Sizes strides = {};       ///< as on one device; empty if not needed
  std::int64_t offset = 0;  ///< of a view: of the first element, in the memory of its base
  int element_bytes = 4;
  bool floating = true;  ///< real numbers
  bool complex = false;
  bool truth = false;     ///< bool
  bool defined = true;    ///< false for an optional argument that was not given
  bool ordinary = false;  ///< an ordinary zero-dimensional tensor, the same on every rank

  std::int64_t dim() const { return static_cast<std::int64_t>(sizes.size()); }
  std::int64_t elements() const;
  double bytes() const { return static_cast<double>(elements()) * element_bytes; }
};

/// A tensor argument: its index in OpCall::tensors.
struct TensorAt {
  std::size_t index = 0;
};
/// A list of tensors: `count` of them from `first` on.
struct TensorsAt {
  std::size_t first = 0;
  std::size_t count = 0;
};
/// A number whose value no rule depends on (a learning rate, an epsilon).
struct AnyNumber {};

using Argument = std::variant<std::monostate, TensorAt, TensorsAt, AnyNumber, std::int64_t, bool, Sizes, std::string>;

struct OpCall {
  std::string name;      ///< without namespace, overload and the underscore of in-place variants: "add", "_softmax"
  std::string overload;  ///< "Tensor", "dim_IntList", ""
  std::vector<std::pair<std::string, Argument>> arguments;  ///< by the schema's names, in its order, without `out`
  Checked<TensorInfo> tensors;                              ///< inputs, lists flattened
  Checked<TensorInfo> outputs;                              ///< results, lists flattened
  bool in_place = false;                                    ///< tensor 0 is overwritten: add_, not add
  int ranks = 1;                                            ///< along the mesh axis that the rule is applied to
  int all_ranks = 1;                                        ///< ranks of the whole mesh

  /// Whether an argument of this name was given (an optional tensor: is defined).
  bool has(std::string_view argument) const;
  /// The index in `tensors` of a tensor argument. The name must be that of a tensor argument.
  std::size_t tensor(std::string_view argument) const;
  TensorsAt tensor_list(std::string_view argument) const;
  /// The logical shape of a tensor argument.
  const TensorInfo& info(std::string_view argument) const { return tensors[tensor(argument)]; }
  std::int64_t integer(std::string_view argument, std::int64_t otherwise = 0) const;
  bool flag(std::string_view argument, bool otherwise = false) const;
  /// A list of integers; a single integer counts as a list of one; empty when not given.
  Sizes integers(std::string_view argument) const;

  /// Whether a dimension of `size` rows divides into equal parts for every combination of the axes of the mesh.
  bool divides_evenly(std::int64_t size) const { return size % all_ranks == 0; }

 private:
  const Argument* find(std::string_view argument) const;
};

/// `dim` from 0; negative values count from the end of `dims` dimensions.
std::int64_t wrapped_dim(std::int64_t dim, std::int64_t dims);

// Rules and signatures.

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

// ---- views by strides: the rows of each dimension of the base that a view contains

/// The mapping of one dimension of the base: rows begin, begin + step, ... are dimension `to` of the view; without
/// `to`, the dimension is removed and only row `begin` is used.
struct Cut {
  std::int64_t begin = 0;
  std::int64_t step = 1;
  std::int64_t rows = 1;
  std::optional<std::int64_t> to;
};

/// The view with `view`'s sizes and strides at `offset` elements from the start of `self`, as one cut for each
/// dimension of `self`. Dimensions of the view without a cut have one row. nullopt for other views (merged dimensions,
/// a diagonal, overlaps).
std::optional<std::vector<Cut>> as_cuts(const TensorInfo& self, const TensorInfo& view, std::int64_t offset);

/// The text of docs/global.md from the note on, that it is generated, to the end.
std::string ops_page();

}  // namespace lockstep::global
