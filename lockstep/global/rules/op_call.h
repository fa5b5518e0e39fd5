// The description of an operator call for the sharding rules: names, numbers and logical shapes, no data. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace lockstep::global {

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

}  // namespace lockstep::global
