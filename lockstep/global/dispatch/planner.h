// The planner of a call: it chooses placements by the operator's rule, determines the shapes of the results, and counts
// the calls whose divided inputs are gathered, so that every rank computes the whole result.
#pragma once

#include <lockstep/global/dispatch/op_info.h>
#include <lockstep/global/dispatch/plan.h>
#include <lockstep/global/operator_strategy.h>
#include <lockstep/global/rules/choose.h>

#include <ATen/core/stack.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

namespace lockstep::global {

/// One operator with one combination of input placements.
struct GatheredWay {
  std::string call;  ///< "aten::flip of [Shard(0)]"
  bool has_rule = false;
  std::int64_t calls = 0;
  double bytes = 0;  ///< received by each rank
};

/// Counting is not thread-safe beside operators on the mesh, as for TrafficCount.
class GatheredWays {
 public:
  /// The reference stays valid. `is_new`: whether this is the first call for it.
  GatheredWay& way(const std::string& call, bool has_rule, bool& is_new);
  /// The operators that were called, most bytes first.
  std::vector<GatheredWay> called() const;

 private:
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<GatheredWay>> ways_;
};

/// The bytes that each rank receives because the choice makes divided inputs whole along an axis on which nothing stays
/// divided; 0: the work is divided, or no input was.
double gathered_bytes(const Choice& choice, const OpCall& call, const std::vector<Placements>& now,
                      std::span<const int> mesh_sizes);

/// A text for people, with one line for each operator: "aten::flip of [Shard(0)]: 12 calls, 3.4 MB (no rule)".
std::vector<std::string> texts_of(const std::vector<GatheredWay>& ways);

/// `inputs` are input_tensors() of the call. If an operator has no rule and gathering is necessary, logs that once for
/// each operator; Error(unsupported) in strict mode. A `strategy` is followed where the rule allows it for these sizes.
Plan make_plan(const c10::OperatorHandle& op, const OpInfo& info, const torch::jit::Stack& arguments,
               const std::vector<TensorArgument>& inputs, MeshState& mesh, const OperatorStrategy* strategy = nullptr);

/// The reaction to calls that gather their inputs.
enum class Strictness {
  warn,    ///< a warning where there is no rule
  refuse,  ///< Error(unsupported) where there is no rule
  list,    ///< a line in the log for each combination of placements, even if the rule has no better choice
};
/// The value of LOCKSTEP_GLOBAL_STRICT, or of the last set_strict(). Error(environment) for an invalid value.
Strictness strictness();
void set_strict(bool strict);

}  // namespace lockstep::global
