// Gloo as libtorch has it.
#pragma once

#include <torch/version.h>

namespace lockstep::test {

/// Gloo in libtorch 2.11 misses that a peer has closed its connection, in 1 of 100 tries (docs/libtorch.md#what-works).
/// So what becomes of a lost peer is not tested over it there.
constexpr bool kGlooMissesLostPeers = TORCH_VERSION_MAJOR >= 2;

}  // namespace lockstep::test
