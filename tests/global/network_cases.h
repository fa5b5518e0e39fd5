// The operators of networks with inputs to try them on, small and mostly uneven.
#pragma once

#include "every_placement.h"

#include <vector>

namespace lockstep::test {

/// Convolution, pooling and resampling, norms, softmax, losses, embedding, products, recurrent layers, attention. The
/// same numbers each time. Tolerance 1e-5, relative and absolute, where a case does not say otherwise.
std::vector<OperatorCase> network_cases();

/// The same families on so few pictures, channels and places that some ranks have an empty part.
std::vector<OperatorCase> small_cases();

}  // namespace lockstep::test
