// Samples and batches: named tensors and texts, as data sets give them and tasks take them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace at {
class Tensor;
}

namespace lockstep::samples {

/// Tensors by the name of their field. Copies share memory.
using Tensors = std::map<std::string, at::Tensor, std::less<>>;

/// One sample: tensors of any dtype and shape, and texts.
struct Sample {
  Tensors tensors;
  std::map<std::string, std::string, std::less<>> texts{};
};

/// The samples of one step on one rank. In parallel.mode semi_auto and auto a task sees global tensors: those of the
/// whole batch of all ranks, of which `count` is the size then.
struct Batch {
  Tensors tensors;  ///< each with the samples along dimension 0
  std::map<std::string, std::vector<std::string>, std::less<>> texts;
  std::vector<std::int64_t> indices;  ///< the samples' indices in the data set, those of this rank
  std::int64_t count = 0;             ///< samples; may be 0 (data.remainder exact)

  /// The tensor of a field. Error(invalid_argument) naming the fields that there are when it has no such field.
  const at::Tensor& operator[](std::string_view field) const;
};

}  // namespace lockstep::samples
