// A key-value store in memory: texts and counters in two maps under one mutex.
#include <lockstep/cluster/elastic/key_value_store.h>

namespace lockstep::cluster::elastic {

std::optional<std::string> MemoryStore::get(const std::string& key) {
  const std::lock_guard lock(mutex_);
  const auto found = values_.find(key);
  return found == values_.end() ? std::nullopt : std::optional(found->second);
}

void MemoryStore::set(const std::string& key, const std::string& value) {
  const std::lock_guard lock(mutex_);
  values_[key] = value;
}

std::int64_t MemoryStore::add(const std::string& key, std::int64_t delta) {
  const std::lock_guard lock(mutex_);
  return counts_[key] += delta;
}

bool MemoryStore::replace(const std::string& key, const std::optional<std::string>& expected,
                          const std::string& value) {
  const std::lock_guard lock(mutex_);
  const auto found = values_.find(key);
  const auto held = found == values_.end() ? std::nullopt : std::optional(found->second);
  if (held != expected) return held == value;
  values_[key] = value;
  return true;
}

}  // namespace lockstep::cluster::elastic
