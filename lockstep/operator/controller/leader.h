// Which of several operators acts: the one that holds a Lease, and renews it.
#pragma once

#include <lockstep/operator/api/client.h>
#include <lockstep/operator/job/time_text.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace lockstep::kube {

struct LeaseOptions {
  std::string space;
  std::string name = "lockstep-operator";
  std::string identity;
  std::chrono::milliseconds duration = std::chrono::seconds(15);
  std::chrono::milliseconds renew_deadline = std::chrono::seconds(10);
  std::chrono::milliseconds retry = std::chrono::seconds(2);
};

/// A try to get or keep the Lease. Another holder's clock is not looked at: it holds as long as its record changes
/// within the duration, by this side's clock. Not thread-safe.
class LeaseHolder {
 public:
  using Clock = std::chrono::steady_clock;

  LeaseHolder(ApiClient& client, LeaseOptions options);

  /// Whether this side holds the Lease now. It has lost it for good when it held it once, and `lost`.
  bool try_once();

  /// It held the Lease, and could not renew it by the deadline, or another one has it.
  bool lost() const { return lost_; }
  bool holds() const { return holds_; }
  const std::string& other() const { return other_; }
  /// Why the last try failed; empty: it did not.
  const std::string& trouble() const { return trouble_; }

  /// Lets the next one have it at once.
  void release();

 private:
  bool write(nlohmann::json lease, bool creates, bool takes_over);
  void note_failure(const std::string& why);

  ApiClient& client_;
  LeaseOptions options_;
  nlohmann::json lease_;      ///< as this side wrote it
  std::string seen_version_;  ///< of another holder's record
  Clock::time_point seen_{};
  Clock::time_point renewed_{};
  bool holds_ = false;
  bool lost_ = false;
  std::string other_;
  std::string trouble_;
};

}  // namespace lockstep::kube
