// The interface of the store that the agents of a job share: a few keys, and compare and set. The simplest
// implementation is in memory.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::cluster::elastic {

/// A store that all agents of a job reach. Keys are any text; values are any bytes, but never empty. No call waits for
/// a key to appear, and every call has a deadline of the store's own: Error(timeout) when it passes, Error(peer_lost)
/// when the process that hosts it ended, Error(io) for everything else. Each error names the store. After one of these
/// errors the store may be unusable. All calls are thread-safe.
class KeyValueStore {
 public:
  KeyValueStore() = default;
  KeyValueStore(const KeyValueStore&) = delete;
  KeyValueStore& operator=(const KeyValueStore&) = delete;
  virtual ~KeyValueStore() = default;

  /// nullopt when there is no such key.
  virtual std::optional<std::string> get(const std::string& key) = 0;

  /// Reads several keys at once, in their order, in one request where the store supports that.
  virtual std::vector<std::optional<std::string>> get_all(const std::vector<std::string>& keys) {
    std::vector<std::optional<std::string>> values;
    values.reserve(keys.size());
    for (const std::string& key : keys) values.push_back(get(key));
    return values;
  }

  virtual void set(const std::string& key, const std::string& value) = 0;

  /// Adds to the integer under `key`, which counts as 0 where there is none, and returns the sum. No two calls return
  /// the same sum (for delta 1). Such a key is only used with `add`.
  virtual std::int64_t add(const std::string& key, std::int64_t delta) = 0;

  /// Sets the key if it holds `expected` (nullopt: if there is no such key). True when the key holds `value` now.
  /// `expected` and `value` differ.
  virtual bool replace(const std::string& key, const std::optional<std::string>& expected,
                       const std::string& value) = 0;

  /// The name for messages: "the store at 10.0.0.1:29400".
  virtual std::string describe() const = 0;

  /// Whether this process serves the store to the other agents now.
  virtual bool is_held_here() const { return false; }
};

using KeyValueStorePtr = std::shared_ptr<KeyValueStore>;

/// The store of a job on one node: in the memory of its only agent.
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
