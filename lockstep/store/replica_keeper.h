// The keeper of a replica: a thread that follows the leader of a store with copies, finds another leader when that one
// is lost, leads where the rules allow it (succession.h), and reports the leader's address to the store's opening
// address.
#pragma once

#include <lockstep/store/client.h>
#include <lockstep/store/replica.h>

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>

namespace lockstep::store {

struct KeeperOptions {
  Address own;       ///< at which the other members reach this process
  Address endpoint;  ///< the well-known address; it may be the same as `own`
  Credentials credentials{};
  std::function<void(const std::string&)> tell{};  ///< reports the address of a new leader
};

class ReplicaKeeper {
 public:
  /// The server of `replica` listens at the own address already.
  ReplicaKeeper(std::shared_ptr<Replica> replica, KeeperOptions options);
  ReplicaKeeper(const ReplicaKeeper&) = delete;
  ReplicaKeeper& operator=(const ReplicaKeeper&) = delete;
  ~ReplicaKeeper();

 private:
  void run();
  void pause(std::chrono::milliseconds time);
  bool follow(const Standing& self);
  void search();
  void elect(const Standing& self, const Probes& probes);
  bool asks_for_vote(const Address& of, const MessageWriter& candidate) const;
  void look_after_members();
  void announce_leader(const Standing& self);
  Probe ask_standing(const Address& address) const;
  std::unique_ptr<Client> connect(const Address& address, std::chrono::milliseconds limit) const;
  void use(std::shared_ptr<Client> client);

  const std::shared_ptr<Replica> replica_;
  const KeeperOptions options_;
  std::set<Address> hints_;  ///< addresses of members, as other processes reported them
  Address followed_;         ///< the leader to which client_ is connected
  std::string told_;         ///< the leader that was reported last
  std::optional<Time> leaderless_;
  Time announced_{};

  std::mutex mutex_;  ///< guards the members below
  std::condition_variable wake_;
  bool stop_ = false;
  std::shared_ptr<Client> client_;
  std::thread thread_;
};

}  // namespace lockstep::store
