// The status of a scheduler's job: the document of /v1/status (docs/scheduler.md has its schema), the stragglers in it,
// and the request for it.
#pragma once

#include <lockstep/base/step_times.h>
#include <lockstep/membership/membership.h>
#include <lockstep/membership/service/service.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace boost::asio::ssl {
class context;
}

namespace lockstep::membership {

/// The stragglers, workers for which the other workers wait. For each worker, whether all others wait for it: its own
/// part of a step takes at least 1.5 times the median of the others, and the difference is large enough: 5 ms, and a
/// tenth of the step. Several workers may be slow, as long as they are fewer than the rest. nullopt, a worker whose
/// times are not known, is not a straggler and does not count.
std::vector<bool> find_stragglers(const std::vector<std::optional<StepTime>>& workers);

/// The facts in the document that are not in the membership.
struct StatusFacts {
  std::string version;   ///< the version of Lockstep
  bool secured = false;  ///< uses TLS
  bool saves = false;    ///< keeps its state in MS_RECOVERY_PATH
  Time started;
  std::deque<LoggedDecision> decisions{};  ///< the last ones
};

/// The document of /v1/status.
std::string status_json(const Membership& membership, const StatusFacts& facts, Time now);

/// The same as a readable table. Error(data) when `json` is not a status document.
std::string status_table(const std::string& json);

/// Requests the document of GET /v1/status. `tls`: nullptr for plain HTTP. Error(io) or Error(timeout) naming the
/// address when there is no answer, or the answer is not a scheduler's.
std::string fetch_status(const std::string& host, std::uint16_t port,
                         const std::shared_ptr<boost::asio::ssl::context>& tls);

// ---- parts of the document and of its table that the status of launchers has, too

double seconds_of(std::chrono::steady_clock::duration duration);
nlohmann::json describe_decisions(const std::deque<LoggedDecision>& decisions, Time now);
/// A value as text: "-" for null.
std::string cell(const nlohmann::json& value);
/// What is awaited and the last decisions, as lines; empty where the document has neither.
std::string last_lines(const nlohmann::json& status);

}  // namespace lockstep::membership
