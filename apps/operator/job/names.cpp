// Names of a job's Pods, Service, Secret and state, with labels and owner references, from the job alone.
#include <apps/operator/api/resource.h>
#include <apps/operator/job/names.h>

#include <fmt/format.h>

#include <algorithm>

namespace lockstep::kube {
namespace {

std::string_view word(Role role) {
  switch (role) {
    case Role::scheduler: return "scheduler";
    case Role::ps: return "ps";
    case Role::worker: return "worker";
  }
  return "?";
}

}  // namespace

std::string pod_name(const std::string& job, Role role, int index) {
  return fmt::format("{}-{}-{}", job, word(role), index);
}

std::string pod_address(const Job& job, Role role, int index) {
  return fmt::format("{}.{}.{}.svc", pod_name(job.name, role, index), service_name(job), job.space);
}

std::string service_name(const Job& job) { return job.name; }
std::string config_map_name(const Job& job) { return job.name; }
std::string pod_group_name(const Job& job) { return job.name; }

std::string secret_name(const Job& job) {
  switch (job.spec.tls) {
    case TlsSource::automatic: return job.name + "-tls";
    case TlsSource::named: return job.spec.secret;
    case TlsSource::insecure: break;
  }
  return "";
}

std::string state_place(const Job& job, int attempt) {
  std::string place = job.spec.recovery_path;
  if (attempt < 2) return place;
  const auto query = place.starts_with("etcds://") ? place.find('?') : std::string::npos;  // the query names TLS files
  return place.insert(std::min(query, place.size()), fmt::format("/attempt-{}", attempt));
}

std::string worker_selector(const Job& job) {
  return fmt::format("{}={},{}={}", kJobNameLabel, job.name, kRoleLabel, name(Role::worker));
}

nlohmann::json job_labels(const Job& job) {
  return {{kJobNameLabel, job.name}, {kJobUidLabel, job.uid}, {"app.kubernetes.io/managed-by", "lockstep-operator"}};
}

nlohmann::json owned_by(const Job& job) {
  return nlohmann::json::array({{{"apiVersion", lockstep_jobs().api_version()},
                                 {"kind", lockstep_jobs().kind},
                                 {"name", job.name},
                                 {"uid", job.uid},
                                 {"controller", true},
                                 {"blockOwnerDeletion", true}}});
}

}  // namespace lockstep::kube
