// The store of a job on one node: in the memory of its only agent.
#pragma once

#include <lockstep/cluster/elastic/key_value_store.h>

#include <map>
#include <mutex>

namespace lockstep::cluster::elastic {

class MemoryStore final : public KeyValueStore {
 public:
  std::optional<std::string> get(const std::string& key) override;
  void set(const std::string& key, const std::string& value) override;
  std::int64_t add(const std::string& key, std::int64_t delta) override;
  bool replace(const std::string& key, const std::optional<std::string>& expected, const std::string& value) override;
  std::string describe() const override { return "the store of this launcher"; }

 private:
  std::mutex mutex_;
  std::map<std::string, std::string, std::less<>> values_;
  std::map<std::string, std::int64_t, std::less<>> counts_;
};

}  // namespace lockstep::cluster::elastic
