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
/// Executes the local part of a call, if that is more than calling the operator on the parts (local/).
using LocalForm = void (*)(LocalCall&);

struct PlannedOutput {
  LogicalShape shape;
  const Sharding* sharding = nullptr;
};

struct Plan {
  OpCall call;                          ///< shapes and numbers as the rules saw them
  std::vector<const Sharding*> inputs;  ///< the placements that each tensor argument must have; nullptr: undefined, or
                                        ///< an ordinary scalar tensor
  std::vector<PlannedOutput>
      outputs;               ///< the results, lists flattened, without those that are the caller's own tensors
  LocalForm form = nullptr;  ///< nullptr: the operator itself
  bool overwrites = false;   ///< an in-place variant that does not read its own tensor
  bool direct = false;       ///< no redistribution is needed, and the arguments have neither lists nor `out`
  std::vector<std::size_t> tensor_positions;  ///< of a direct plan: indices of the arguments that are global tensors
  std::vector<std::size_t> device_positions;  ///< of a direct plan: indices of the arguments that are their device
  std::string trace_text;                     ///< the call's entry on the mesh's trace, with shapes and placements
  std::uint64_t trace_hash = 0;               ///< hash of trace_text; 0: not on the trace
  bool for_one_rank = false;                  ///< a single rank may make the call; its error is not reported to the
                                              ///< other ranks
};

}  // namespace lockstep::global
