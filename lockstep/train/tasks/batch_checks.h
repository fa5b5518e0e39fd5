// Checks of a batch that tasks share: the reasons why libtorch rejects it, with the names of configuration keys.
#pragma once

#include <lockstep/samples/dataset.h>

#include <cstdint>
#include <string_view>

namespace lockstep::train {

// The checks are called only after an error of libtorch, unless the text says otherwise: a check of the values of each
// batch would cost time.

/// The tensor, or this rank's part of a global one; undefined where there are no values, as in a plan.
at::Tensor find_own_values(const at::Tensor& tensor);

/// Error(data), naming `key`, which is `limit`, and the sample, for a whole number of `field` that is not from 0 to
/// limit - 1. Labels of -100 are those that a loss leaves out.
void require_in_range(const samples::Batch& batch, std::string_view field, std::int64_t limit, std::string_view key);

/// Error(data), naming `key`, for targets outside of 0 to 1, of which a cross entropy has no minimum: it would decrease
/// without bound. `meaning` is the beginning of the message, `fix` its end. Called for each batch.
void require_shares(const at::Tensor& targets, std::string_view key, std::string_view meaning, std::string_view fix);

/// Error(config), naming the transforms, for pictures that are whole numbers.
void require_floating_pictures(const samples::Batch& batch);

}  // namespace lockstep::train
