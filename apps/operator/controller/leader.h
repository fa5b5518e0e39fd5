// Leader election between operators: only the operator that holds and renews a Lease acts.
#pragma once

#include <apps/operator/api/client.h>
#include <apps/operator/job/json.h>

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

/// Acquires and renews the Lease. The clock of another holder is not used: the other holder has the Lease as long as
/// its record changes within the duration, by the local clock. Not thread-safe.
class LeaseHolder {
 public:
  using Clock = std::chrono::steady_clock;

  LeaseHolder(ApiClient& client, LeaseOptions options);

  /// Whether this operator holds the Lease now. If it held the Lease once and `lost` is true, it never gets it back.
  bool try_once();

  /// This operator held the Lease, and did not renew it by the deadline, or another operator has it.
  bool lost() const { return lost_; }
  bool holds() const { return holds_; }
  const std::string& other() const { return other_; }
  /// Why the last attempt failed; empty: it did not fail.
  const std::string& trouble() const { return trouble_; }

  /// Releases the Lease, so that another operator can take it at once.
  void release();

 private:
  bool write(nlohmann::json lease, bool creates, bool takes_over);
  void note_failure(const std::string& why);

  ApiClient& client_;
  LeaseOptions options_;
  nlohmann::json lease_;      ///< as this operator wrote it
  std::string seen_version_;  ///< of another holder's record
  Clock::time_point seen_{};
  Clock::time_point renewed_{};
  bool holds_ = false;
  bool lost_ = false;
  std::string other_;
  std::string trouble_;
};

}  // namespace lockstep::kube
