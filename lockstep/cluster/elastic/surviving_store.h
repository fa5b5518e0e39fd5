// The store of a job's agents that one of them holds, with Lockstep's own protocol (store/), as used by an agent with a
// copy: when the holder is lost, another agent holds the store, and calls continue there.
#pragma once

#include <lockstep/cluster/elastic/key_value_store.h>
#include <lockstep/store/client.h>
#include <lockstep/store/replica_keeper.h>
#include <lockstep/store/server.h>

#include <chrono>
#include <memory>
#include <mutex>
#include <string>

namespace lockstep::cluster::elastic {

/// "the store at 10.0.0.1:29400".
std::string name_of_store(const store::Address& address);

/// This process's part in the store.
struct StoreCopy {
  std::shared_ptr<store::Replica> replica;
  std::unique_ptr<store::Server> server;
  std::unique_ptr<store::ReplicaKeeper> keeper;
};

class SurvivingStore final : public KeyValueStore {
 public:
  /// `limit`: for one call, with all attempts. `notice`: after this long in one call, the user gets a message. `own`:
  /// the address at which this process serves its copy.
  SurvivingStore(StoreCopy copy, store::Address own, store::Credentials credentials, std::chrono::milliseconds limit,
                 std::chrono::milliseconds notice);

  std::optional<std::string> get(const std::string& key) override { return get_all({key}).front(); }
  std::vector<std::optional<std::string>> get_all(const std::vector<std::string>& keys) override;
  void set(const std::string& key, const std::string& value) override;
  std::int64_t add(const std::string& key, std::int64_t delta) override;
  bool replace(const std::string& key, const std::optional<std::string>& expected, const std::string& value) override;
  std::string describe() const override;
  bool is_held_here() const override;

 private:
  std::string change(store::Operation operation, const store::MessageWriter& fields);
  std::string ask(store::Operation operation, const store::MessageWriter& fields);
  void connect(store::Time deadline);
  void tell_of_silence(const std::string& why) const;
  [[noreturn]] void fail_after(bool silent, const std::string& why) const;

  const StoreCopy copy_;
  const store::Address own_;
  const store::Credentials credentials_;
  const std::chrono::milliseconds limit_;
  const std::chrono::milliseconds notice_;
  const std::string id_;  ///< the id of this client, whose changes are numbered

  std::mutex mutex_;  ///< guards the members below: one call at a time
  std::uint64_t changes_ = 0;
  std::string store_;  ///< its name
  store::Address holder_;
  std::unique_ptr<store::Client> client_;
};

}  // namespace lockstep::cluster::elastic
