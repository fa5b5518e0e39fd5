// A poller of running jobs' schedulers (GET /v1/status) that records each job's step.
#include <apps/operator/controller/progress.h>
#include <apps/operator/job/json.h>
#include <apps/operator/job/names.h>
#include <lockstep/base/crypto.h>
#include <lockstep/base/error.h>
#include <lockstep/base/log.h>
#include <lockstep/net/http_client.h>
#include <lockstep/net/tls_contexts.h>

#include <algorithm>
#include <condition_variable>

namespace lockstep::kube {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;

constexpr std::chrono::seconds kAnswer(2);
constexpr std::size_t kLongestStatus = std::size_t{16} << 20;  // of some ten thousand workers
constexpr milliseconds kFirstLook(500);
constexpr int kQuickLooks = 120;

/// Queries schedulers; caches the TLS context of each job.
class Asker {
 public:
  Asker(ApiClient& client, const Cache& cache) : client_(client), cache_(cache) {}

  /// nullopt: there is no step yet, or no running scheduler.
  std::optional<std::int64_t> step(const Job& job) {
    const Object pod = cache_.find(pods(), job.space + "/" + pod_name(job.name, Role::scheduler, 0));
    if (!pod || controller_uid(*pod) != job.uid) return std::nullopt;
    const auto address = text_at(object_at(*pod, "status"), "podIP");
    if (address.empty() || text_at(object_at(*pod, "status"), "phase") != "Running") return std::nullopt;
    net::HttpClient scheduler({address, kSchedulerPort, pod_address(job, Role::scheduler, 0)}, tls(job),
                              kLongestStatus);
    const auto response = scheduler.get("/v1/status", std::chrono::steady_clock::now() + kAnswer);
    if (response.status != 200) fail(ErrorKind::io, "operator", "status {} of HTTP", response.status);
    return integer_at(json::parse(response.body, nullptr, false), "step");
  }

  void keep_only(const std::set<std::string>& job_uids) {
    std::erase_if(contexts_, [&](const auto& entry) { return !job_uids.contains(entry.first); });
  }

 private:
  std::shared_ptr<boost::asio::ssl::context> tls(const Job& job) {
    if (job.spec.tls == TlsSource::insecure) return nullptr;
    const auto known = contexts_.find(job.uid);
    if (known != contexts_.end()) return known->second;
    const Answer secret = client_.get(path_of(secrets(), job.space, secret_name(job)));
    if (!secret.ok()) fail(ErrorKind::io, "operator", "the Secret {}: {}", secret_name(job), secret.text());
    return contexts_[job.uid] = client_tls_of(object_at(secret.object, "data"));
  }

  ApiClient& client_;
  const Cache& cache_;
  std::map<std::string, std::shared_ptr<boost::asio::ssl::context>> contexts_;
};

/// The jobs with a scheduler that can report steps.
std::vector<Job> running_jobs(const Cache& cache) {
  std::vector<Job> jobs;
  for (const Object& object : cache.all(lockstep_jobs())) {
    const auto phase = text_at(object_at(*object, "status"), "phase");
    if (phase != "Running" && phase != "Restarting") continue;
    Job job = parse_job(*object);
    if (job.problems.empty() && job.spec.mode == Mode::scheduler) jobs.push_back(std::move(job));
  }
  return jobs;
}

}  // namespace

std::optional<std::int64_t> JobProgress::step(const std::string& job_uid) const {
  const std::lock_guard lock(mutex_);
  const auto found = steps_.find(job_uid);
  return found == steps_.end() ? std::nullopt : std::optional(found->second);
}

bool JobProgress::set(const std::string& job_uid, std::int64_t step) {
  const std::lock_guard lock(mutex_);
  const auto [at, is_new] = steps_.try_emplace(job_uid, step);
  if (!is_new && at->second == step) return false;
  at->second = step;
  return true;
}

void JobProgress::keep_only(const std::set<std::string>& job_uids) {
  const std::lock_guard lock(mutex_);
  std::erase_if(steps_, [&](const auto& entry) { return !job_uids.contains(entry.first); });
}

milliseconds progress_interval(std::chrono::seconds asked, std::size_t jobs) {
  return std::max<milliseconds>(asked, milliseconds(500) * jobs);
}

milliseconds first_step_interval(std::chrono::seconds asked, std::size_t jobs, int looks) {
  const auto usual = progress_interval(asked, jobs);
  return looks < kQuickLooks ? std::min(usual, progress_interval(std::chrono::seconds(0), jobs)) : usual;
}

std::shared_ptr<boost::asio::ssl::context> client_tls_of(const json& data) {
  const net::ReadBytes read = [&](const std::string& file) { return from_base64(text_at(data, file)); };
  const auto config = read("config.json").value_or("");
  const auto files = net::parse_tls_files(config, "config.json");
  std::string password;
  if (!files.client_password_file.empty()) password = read(files.client_password_file).value_or("");
  password = password.substr(0, password.find('\n'));
  return net::make_context(net::TlsSide::client, files, password, read);
}

void watch_progress(ApiClient client, const Cache& cache, JobProgress& progress, std::chrono::seconds interval,
                    const std::function<void(const std::string&)>& changed, std::stop_token stop) {
  const std::stop_callback cancel(stop, [&] { client.cancel(); });
  Asker asker(client, cache);
  std::map<std::string, std::string> troubles;
  std::map<std::string, int> in_vain;  ///< queries of jobs that have reported no step yet
  std::mutex mutex;
  std::condition_variable_any never;
  for (milliseconds wait = kFirstLook; !stop.stop_requested();) {
    {
      std::unique_lock lock(mutex);
      never.wait_for(lock, stop, wait, [] { return false; });
    }
    const auto jobs = running_jobs(cache);
    std::set<std::string> uids;
    int least_in_vain = kQuickLooks;
    for (const Job& job : jobs) {
      if (stop.stop_requested()) return;
      uids.insert(job.uid);
      std::string trouble;
      try {
        const auto step = asker.step(job);
        if (step && progress.set(job.uid, *step)) changed(job.key());
      } catch (const std::exception& error) {
        trouble = error.what();
      }
      std::string& last = troubles[job.uid];
      if (trouble != last && !trouble.empty()) {
        log_info("{}: the step cannot be read from its scheduler: {}", job.key(), trouble);
      }
      last = trouble;
      if (!progress.step(job.uid)) least_in_vain = std::min(least_in_vain, ++in_vain[job.uid]);
    }
    asker.keep_only(uids);
    progress.keep_only(uids);
    std::erase_if(troubles, [&](const auto& entry) { return !uids.contains(entry.first); });
    std::erase_if(in_vain, [&](const auto& entry) { return !uids.contains(entry.first); });
    wait = first_step_interval(interval, jobs.size(), least_in_vain);
  }
}

}  // namespace lockstep::kube
