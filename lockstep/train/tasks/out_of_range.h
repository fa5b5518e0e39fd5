// The reasons why libtorch rejects a batch of a built-in task, with the names of configuration keys. Called only after
// such an error: a check of the values of each batch would cost time.
#pragma once

#include <lockstep/samples/dataset.h>

#include <cstdint>
#include <string_view>

namespace lockstep::train {

/// The tensor, or this rank's part of a global one; undefined where there are no values, as in a plan.
at::Tensor find_own_values(const at::Tensor& tensor);

/// Error(data), naming `key`, which is `limit`, and the sample, for a whole number of `field` that is not from 0 to
/// limit - 1. Labels of -100 are those that a loss leaves out.
void require_in_range(const samples::Batch& batch, std::string_view field, std::int64_t limit, std::string_view key);

/// Error(config), naming the transforms, for pictures that are whole numbers.
void require_floating_pictures(const samples::Batch& batch);

}  // namespace lockstep::train
