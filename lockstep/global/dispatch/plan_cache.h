// The cache of plans, by the key of a call: all values that the plan depends on.
#pragma once

#include <lockstep/global/dispatch/plan.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

namespace lockstep::global {

/// The operator, and the properties of each argument on which rules and shapes depend (dispatch/key.h).
using KeyView = std::span<const std::int64_t>;

/// Thread-safe. Plans live as long as the cache.
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

}  // namespace lockstep::global
