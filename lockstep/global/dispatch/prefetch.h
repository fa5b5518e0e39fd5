// Prefetching of divided parameters (ZeRO stage 3): while one operator computes, the parameters that the next operators
// need are gathered.
#pragma once

#include <lockstep/global/mesh_state.h>
#include <lockstep/global/redistribute.h>

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <unordered_map>
#include <vector>

namespace lockstep::global {

struct PrefetchCounts {
  std::int64_t gathers = 0;         ///< of parameters, in steps
  std::int64_t begun_early = 0;     ///< gathers that started before they were needed
  std::int64_t begun_in_vain = 0;   ///< started and not needed
  std::int64_t most_in_flight = 0;  ///< the most gathers that were started and not yet needed at one time
};

/// Records in each step the order in which operators gather parameters, and starts the gathers of the next step in this
/// order. All ranks of a mesh run the same operators, so they start the same gathers in the same order. A step with
/// another order is only slower. Not thread-safe; calls may be made on several threads (that of backward), one at a
/// time.
class Prefetch {
 public:
  /// At most `in_flight` gathers are started and not yet needed.
  Prefetch(std::vector<at::Tensor> parameters, std::size_t in_flight);

  /// From this call to end_step(), gathers are recorded and started. Meanwhile, a parameter that is written to is
  /// gathered again.
  void begin_step();
  void end_step();

  /// The gathered value, if `tensor` (a parameter, or a view of one) was divided as in `state_of(tensor)` and is needed
  /// replicated. nullopt for a tensor that is not prefetched: the caller gathers it.
  std::optional<at::Tensor> take(const at::Tensor& tensor, const Sharding* needed);

  /// To be called before an operator writes to a tensor: gathers in progress must not read the memory at that time.
  void before_write(const at::Tensor& tensor);

  const PrefetchCounts& counts() const { return counts_; }

 private:
  /// A gather, as the part of a parameter that it sends.
  struct Wanted {
    std::size_t parameter = 0;
    std::vector<std::int64_t> local_sizes, local_strides;
    std::int64_t local_offset = 0;
    std::vector<std::int64_t> sizes;
    c10::MemoryFormat format = c10::MemoryFormat::Contiguous;
    const Sharding* from = nullptr;
    const Sharding* to = nullptr;
    friend bool operator==(const Wanted&, const Wanted&) = default;
  };
  struct InFlight {
    std::size_t number = 0;  ///< in the order of the step
    BegunGather gather;
  };

  void begin_next();
  void drop();

  std::vector<at::Tensor> parameters_;
  std::size_t most_;
  std::unordered_map<const void*, std::size_t> by_memory_;  ///< parameters by the storage of their parts
  std::vector<Wanted> expected_;                            ///< of the last step
  std::vector<Wanted> seen_;                                ///< of this step
  std::deque<InFlight> in_flight_;
  bool in_step_ = false;
  bool as_expected_ = false;
  PrefetchCounts counts_;
};

}  // namespace lockstep::global
