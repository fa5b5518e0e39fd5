// The plan of a call of an operator on global tensors (its placements, local work and results), and the cache of plans
// by the key of a call.
#pragma once

#include <lockstep/global/dispatch/op_info.h>
#include <lockstep/global/rules/choose.h>
#include <lockstep/global/tensor_state.h>

#include <ATen/core/stack.h>
#include <c10/util/SmallVector.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace lockstep::global {

struct GatheredWay;
struct LocalCall;
/// Executes the local part of a call, if that is more than calling the operator on the parts (local/).
using LocalForm = void (*)(LocalCall&);

struct PlannedOutput {
  LogicalShape shape;
  const Sharding* sharding = nullptr;
};

struct Plan {
  OpCall call;                          ///< shapes and numbers that the rules have read
  std::vector<const Sharding*> inputs;  ///< the placements that each tensor argument must have; nullptr: undefined, or
                                        ///< an ordinary scalar tensor
  std::vector<PlannedOutput>
      outputs;  ///< the results, lists flattened, without those that are the caller's own tensors
  std::vector<const Sharding*> afterwards;  ///< of the outputs, if a strategy requires other placements than the rule;
                                            ///< else empty
  LocalForm form = nullptr;                 ///< nullptr: the operator itself
  GatheredWay* gathers = nullptr;           ///< of a call whose inputs are gathered: its counter
  double gathered_bytes = 0;
  bool overwrites = false;  ///< an in-place variant that does not read its tensor
  bool direct = false;      ///< no redistribution is needed, and the arguments have neither lists nor `out`
  std::vector<std::size_t> tensor_positions;  ///< of a direct plan: indices of the arguments that are global tensors
  std::vector<std::size_t> device_positions;  ///< of a direct plan: indices of the arguments that are their device
  std::string trace_text;                     ///< the call's entry on the mesh's trace, with shapes and placements
  std::uint64_t trace_hash = 0;               ///< hash of trace_text; 0: not on the trace
  bool for_one_rank = false;                  ///< a single rank may make the call; its error is not reported to the
                                              ///< other ranks
};

/// The operator, and the properties of each argument on which rules and shapes depend (write_key).
using KeyView = std::span<const std::int64_t>;

/// Thread-safe. Plans exist as long as the cache.
class PlanCache {
 public:
  const Plan* find(KeyView key) const;
  const Plan* keep(KeyView key, Plan plan);
  std::size_t size() const;

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(KeyView key) const noexcept;
    std::size_t operator()(const std::vector<std::int64_t>& key) const noexcept { return (*this)(KeyView(key)); }
  };
  struct Equal {
    using is_transparent = void;
    bool operator()(KeyView a, KeyView b) const noexcept { return std::equal(a.begin(), a.end(), b.begin(), b.end()); }
  };

  mutable std::mutex mutex_;
  std::unordered_map<std::vector<std::int64_t>, std::unique_ptr<Plan>, Hash, Equal> plans_;
};

/// A key under construction: no allocation for calls of ordinary length.
using Key = c10::SmallVector<std::int64_t, 96>;

/// Writes the key of the call whose arguments are these. The values of floating-point numbers and scalars are left out:
/// plans do not depend on them. For lengths of sequences, the key has their number and the largest, because shapes
/// depend on these. Returns whether some tensor is a fetched view, which may be outdated.
bool write_key(const OpInfo& info, const torch::jit::Stack& arguments, Key& key);

}  // namespace lockstep::global
