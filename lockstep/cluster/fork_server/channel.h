// The protocol between the launcher and its fork server: words and descriptors over a local socket.
#pragma once

#include <lockstep/base/unique_fd.h>

#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::cluster {

// The launcher's requests, each answered before the next.
inline constexpr const char* kHello = "hello";       ///< [open descriptors] -> kReady or kFailure
inline constexpr const char* kBeginForks = "forks";  ///< -> kReady; then any number of kRank, and kEndForks
inline constexpr const char* kRank = "rank";     ///< [launcher's pid, variables...], gate, out, err -> kPid or kFailure
inline constexpr const char* kEndForks = "end";  ///< -> kReady: the ranks are children of the launcher
// The answers.
inline constexpr const char* kReady = "ready";
inline constexpr const char* kPid = "pid";         ///< [pid]
inline constexpr const char* kFailure = "failed";  ///< [why]

/// The environment variable that makes a program a fork server: the number of its end of the socket.
inline constexpr const char* kServerVariable = "LOCKSTEP_FORK_SERVER";

struct Message {
  std::string kind;
  std::vector<std::string> words{};  ///< without NUL
  std::vector<UniqueFd> descriptors{};
};

/// At most four descriptors, which the caller keeps. Error(io) when the other side has ended or the message is too
/// long.
void send_message(int socket, const std::string& kind, const std::vector<std::string>& words = {},
                  std::initializer_list<int> descriptors = {});

/// Waits for the next message; nullopt when the other side has ended. Its descriptors are closed on exec.
std::optional<Message> receive_message(int socket);

struct Channel {
  UniqueFd mine;
  UniqueFd theirs;
};

/// Both ends are closed on exec and lie above the standard streams. Error(io) when there are no descriptors left.
Channel make_channel();

/// The number of descriptors that are open in this process beside the standard streams, and how many of those an
/// executed program would keep.
struct DescriptorCount {
  int open = 0;
  int kept_on_exec = 0;
};
DescriptorCount count_descriptors();

}  // namespace lockstep::cluster
