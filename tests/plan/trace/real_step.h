// What libtorch really calls in a training step on one device.
#pragma once

#include <lockstep/plan/graph.h>

#include <functional>
#include <map>
#include <string>

namespace lockstep::test {

/// How often an operator was called with first inputs of these shapes: "convolution [4, 3, 8, 8]" -> 1.
using CallCounts = std::map<std::string, int>;

/// Of what `run` calls on this thread, and autograd for it, on ordinary tensors. Operators that others are made of
/// count, too, so there are names here that no trace has.
CallCounts calls_of(const std::function<void()>& run);

CallCounts calls_of(const plan::Graph& graph);

}  // namespace lockstep::test
