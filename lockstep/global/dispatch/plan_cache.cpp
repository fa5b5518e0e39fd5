#include <lockstep/global/dispatch/plan_cache.h>

namespace lockstep::global {

std::size_t PlanCache::Hash::operator()(KeyView key) const noexcept {
  std::uint64_t hash = 0x9e3779b97f4a7c15ULL;
  for (const std::int64_t word : key) {
    hash = (hash ^ static_cast<std::uint64_t>(word)) * 0xff51afd7ed558ccdULL;
    hash ^= hash >> 32;
  }
  return hash;
}

const Plan* PlanCache::find(KeyView key) const {
  const std::lock_guard lock(mutex_);
  const auto found = plans_.find(key);
  return found == plans_.end() ? nullptr : found->second.get();
}

const Plan* PlanCache::keep(KeyView key, Plan plan) {
  const std::lock_guard lock(mutex_);
  auto& place = plans_[std::vector<std::int64_t>(key.begin(), key.end())];
  if (!place) place = std::make_unique<Plan>(std::move(plan));
  return place.get();
}

std::size_t PlanCache::size() const {
  const std::lock_guard lock(mutex_);
  return plans_.size();
}

}  // namespace lockstep::global
