// How far running jobs are: the steps that their schedulers tell of.
#pragma once

#include <lockstep/operator/api/client.h>
#include <lockstep/operator/controller/cache.h>
#include <lockstep/operator/job/job.h>

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
  /// True: it is another one than before.
  bool set(const std::string& job_uid, std::int64_t step);
  void keep_only(const std::set<std::string>& job_uids);

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::int64_t> steps_;
};

/// The time from one look at a job to the next: as asked, but no more than two looks a second at all jobs together, as
/// each may be a write of a status.
std::chrono::milliseconds progress_interval(std::chrono::seconds asked, std::size_t jobs);

/// The same while some of them have not told of a step yet: within a second where they are few, as a short job may be
/// over after the usual time. After many `looks` in vain at the newest of them, the usual
/// time.
std::chrono::milliseconds first_step_interval(std::chrono::seconds asked, std::size_t jobs, int looks);

/// The TLS of a client that shows the certificate in a job's Secret. Errors: those of net::parse_tls_files() and
/// make_context(). `data`: the Secret's, in base64.
std::shared_ptr<boost::asio::ssl::context> client_tls_of(const nlohmann::json& data);

/// Asks the scheduler of each running job again and again, until `stop`. `changed` gets the keys of jobs. What cannot
/// be asked is only logged: a job needs no operator that reaches its Pods.
void watch_progress(ApiClient client, const Cache& cache, JobProgress& progress, std::chrono::seconds interval,
                    const std::function<void(const std::string&)>& changed, std::stop_token stop);

}  // namespace lockstep::kube
