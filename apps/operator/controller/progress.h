// The progress of running jobs: the steps that their schedulers report.
#pragma once

#include <apps/operator/api/client.h>
#include <apps/operator/controller/cache.h>
#include <apps/operator/job/job.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <stop_token>
#include <string>

namespace boost::asio::ssl {
class context;
}

namespace lockstep::kube {

/// The newest step of each job, by its uid. Thread-safe.
class JobProgress {
 public:
  std::optional<std::int64_t> step(const std::string& job_uid) const;
  /// True: the step has changed.
  bool set(const std::string& job_uid, std::int64_t step);
  void keep_only(const std::set<std::string>& job_uids);

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::int64_t> steps_;
};

/// The time between two queries of a job: as requested, but at most two queries a second for all jobs together, because
/// each query may cause a write of a status.
std::chrono::milliseconds progress_interval(std::chrono::seconds asked, std::size_t jobs);

/// The same while some jobs have not reported a step yet: within a second for few such jobs, because a short job may
/// end before the usual time is over. After many `looks` at the newest of them without a result, the usual time.
std::chrono::milliseconds first_step_interval(std::chrono::seconds asked, std::size_t jobs, int looks);

/// The TLS context of a client that presents the certificate in a job's Secret. Errors: those of net::parse_tls_files()
/// and make_context(). `data`: the Secret's, in base64.
std::shared_ptr<boost::asio::ssl::context> client_tls_of(const nlohmann::json& data);

/// Queries the scheduler of each running job periodically, until `stop`. `changed` gets the keys of jobs. A failed
/// query is only logged, because a job does not need an operator that reaches its Pods.
void watch_progress(ApiClient client, const Cache& cache, JobProgress& progress, std::chrono::seconds interval,
                    const std::function<void(const std::string&)>& changed, std::stop_token stop);

}  // namespace lockstep::kube
