// The plan of a call of an operator on global tensors: its placements, local work and results.
#pragma once

#include <lockstep/global/rules/choose.h>
#include <lockstep/global/tensor_state.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace lockstep::global {

struct LocalCall;
/// Carries out the local part of a call where that is more than calling the operator on the parts (local/).
using LocalForm = void (*)(LocalCall&);

struct PlannedOutput {
  LogicalShape shape;
  const Sharding* sharding = nullptr;
};

struct Plan {
  OpCall call;                          ///< shapes and numbers as the rules saw them
  std::vector<const Sharding*> inputs;  ///< how each tensor argument must lie; nullptr: an undefined or a local number
  std::vector<PlannedOutput>
      outputs;               ///< what comes back, lists laid flat, without those that are the caller's own tensors
  LocalForm form = nullptr;  ///< nullptr: the operator itself
  bool overwrites = false;   ///< an in-place variant that does not read its own tensor
  bool direct = false;       ///< inputs lie right, and neither lists nor `out` are among the arguments
  std::vector<std::size_t> tensor_positions;  ///< of a direct plan: which arguments are global tensors
  std::vector<std::size_t> device_positions;  ///< and which name their device
  std::string trace_text;                     ///< the call on the mesh's trace: what it is, with shapes and placements
  std::uint64_t trace_hash = 0;               ///< of that; 0: not on the trace
  bool for_one_rank = false;                  ///< one rank alone may make the call, and have its error for itself
};

}  // namespace lockstep::global
