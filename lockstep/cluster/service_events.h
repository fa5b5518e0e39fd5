// The events of a launcher's job service (job_service.h): which processes are lost without having ended.
#pragma once

#include <lockstep/base/unique_fd.h>

#include <sys/types.h>

#include <cstdint>
#include <set>
#include <string>
#include <string_view>

namespace lockstep::cluster {

/// Where ranks find the service. A plain value for their environment.
struct ServiceAddress {
  std::string host;
  std::uint16_t port = 0;
  std::string secret;  ///< that both sides prove to know
};

// What is written to the pipe, one line for each event.
inline constexpr std::string_view kLost = "lost ";  ///< and the process number
inline constexpr std::string_view kCompleted = "completed";

/// The launcher's end of the pipe of events.
class ServiceEvents {
 public:
  /// `pipe`: the reading end; empty: nothing ever happens.
  explicit ServiceEvents(UniqueFd pipe = {});

  /// To be polled for input; -1 without a pipe, and once it was closed.
  int fd() const { return pipe_.get(); }

  /// Reads what has come. Never blocks.
  void read_some();

  /// Processes without which the job goes on: silent ones, and those that hang.
  bool is_lost(pid_t process) const { return lost_.contains(process); }
  /// The number of jobs that ended well.
  int completed() const { return completed_; }

 private:
  void take(const std::string& line);

  UniqueFd pipe_;
  std::string unread_;
  std::set<pid_t> lost_;
  int completed_ = 0;
};

}  // namespace lockstep::cluster
