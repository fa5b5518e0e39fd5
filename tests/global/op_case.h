// One call of an operator to be tried with inputs that lie in every way.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace lockstep::test {

using Tensors = std::vector<at::Tensor>;

struct Input {
  enum class Kind {
    any,       ///< numbers around zero, all different
    positive,  ///< all different
    index,     ///< integers from 0 to `bound` - 1
    mask,      ///< bool
  };
  std::vector<std::int64_t> sizes;
  Kind kind = Kind::any;
  std::int64_t bound = 1;

  bool floating() const { return kind == Kind::any || kind == Kind::positive; }
};

inline Input any(std::vector<std::int64_t> sizes) { return {.sizes = std::move(sizes)}; }
inline Input positive(std::vector<std::int64_t> sizes) {
  return {.sizes = std::move(sizes), .kind = Input::Kind::positive};
}
inline Input index(std::vector<std::int64_t> sizes, std::int64_t bound) {
  return {.sizes = std::move(sizes), .kind = Input::Kind::index, .bound = bound};
}
inline Input mask(std::vector<std::int64_t> sizes) { return {.sizes = std::move(sizes), .kind = Input::Kind::mask}; }

struct OpCase {
  std::string name;
  std::vector<Input> inputs;
  std::function<Tensors(const Tensors&)> run;
  bool differentiable = true;
  bool has_rule = true;  ///< false: the inputs may be gathered
};

// The tables, one for each family.
std::vector<OpCase> elementwise_cases();
std::vector<OpCase> product_cases();
std::vector<OpCase> reduction_cases();
std::vector<OpCase> view_cases();
std::vector<OpCase> indexing_cases();
std::vector<OpCase> in_place_cases();
std::vector<OpCase> foreach_cases();
std::vector<OpCase> view_write_cases();

}  // namespace lockstep::test
