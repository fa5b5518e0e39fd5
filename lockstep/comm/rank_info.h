// The identity of a rank that it publishes to the others (host, process, address), and its encoding.
#pragma once

#include <lockstep/world/world.h>

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::detail {

/// The identity of one rank.
struct RankInfo {
  int rank = 0;
  std::string host;           ///< name, for people
  std::string host_identity;  ///< equal for ranks that can share memory: one machine, one network namespace
  std::int64_t pid = 0;
  std::string pid_namespace;        ///< in which `pid` means something, with the machine's boot id
  std::uint64_t started_ticks = 0;  ///< when the process started, so that a reused pid is not taken for it
  std::string address;              ///< of the interface that reaches the others; may be empty
  std::uint64_t hello = 0;          ///< random: identifies this attempt of the rank to join
};

/// "rank 2 (pid 4711 on node-b)"
std::string describe(const RankInfo& info);

/// The identity of this process.
RankInfo this_rank(const World& world, const std::string& address);

/// When process `pid` started, in clock ticks since boot; 0 when there is no such process.
std::uint64_t started_ticks(std::int64_t pid);

/// The encoding of ranks, in order, for the store. Values that ranks of one host share are written once, and the rest
/// is quick to read, because each of thousands of ranks reads all of it.
std::string encode(const std::vector<RankInfo>& ranks);
/// Error(invalid_argument) for a text that `encode` did not write.
std::vector<RankInfo> decode_ranks(const std::string& text);

}  // namespace lockstep::detail
