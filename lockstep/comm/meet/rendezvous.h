// The rendezvous of a job: the identities of all its ranks (host, process, address), collected through the store.
#pragma once

#include <lockstep/comm/meet/stores.h>
#include <lockstep/world/world.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::detail {

/// The identity of one rank.
struct RankInfo {
  int rank = 0;
  std::string host;           ///< name, for messages
  std::string host_identity;  ///< equal for ranks that can share memory: one machine, one network namespace
  std::int64_t pid = 0;
  std::string pid_namespace;        ///< the namespace of `pid`, with the machine's boot id
  std::uint64_t started_ticks = 0;  ///< start time of the process, to detect a reused pid
  std::string address;              ///< of the interface that reaches the other ranks; may be empty
  std::string address_chosen_by;    ///< "GLOO_SOCKET_IFNAME=eth, interface eth0"; empty: by no variable
  bool encrypts = false;            ///< GroupOptions::encrypt
  std::uint64_t hello = 0;          ///< random: identifies this attempt of the rank to join
};

/// "rank 2 (pid 4711 on node-b)"
std::string describe(const RankInfo& info);

/// The identity of this process.
RankInfo this_rank(const World& world, const std::string& address);

/// The start time of process `pid`, in clock ticks since boot; 0 when there is no such process.
std::uint64_t started_ticks(std::int64_t pid);

/// The encoding of ranks, in order, for the store. Values that ranks of one host share are written once, and the rest
/// is fast to read, because each of thousands of ranks reads all of it.
std::string encode(const std::vector<RankInfo>& ranks);
/// Error(invalid_argument) for a text that `encode` did not write.
std::vector<RankInfo> decode_ranks(const std::string& text);

/// The key of a rendezvous's result, once it is over.
inline constexpr auto kOutcomeKey = "outcome";

/// The ranks from 0 to size - 1 that have not registered in the store.
std::vector<int> absent_ranks(c10d::Store& store, int size);

/// Called repeatedly by ranks that collect others, and by all ranks when the connection to the store breaks (which
/// happens when rank 0 holds the store and gives up). Throws the reason why ranks will not arrive, once there is one.
using GiveUp = std::function<void()>;

/// Registers `self` in the store and returns all ranks, in order; nullopt when the rendezvous ended without it, or rank
/// 0 started another one. `store` has the keys of one rendezvous. Error(timeout) names the ranks that are missing after
/// `timeout`; other errors are those of `give_up`.
std::optional<std::vector<RankInfo>> meet(c10d::Store& store, const RankInfo& self, int size,
                                          std::chrono::milliseconds timeout, const GiveUp& give_up);

/// Whether `rank`, which arrives only now, is too late for this rendezvous: it is complete, or was given up.
bool is_over(c10d::Store& store, int rank);

/// Waits, on rank 0 and for at most 2 s, until the other ranks have read the outcome and called this function. For
/// ranks that all find the same error in the outcome: the store may end with rank 0.
void leave_together(c10d::Store& store, int rank, int size);

/// Closes a rendezvous that is not complete. Ranks that wait in it leave it.
void close_rendezvous(c10d::Store& store);

}  // namespace lockstep::detail
