// Names, labels and addresses of a job's objects. They follow from the job alone, so a rank has at most one Pod.
#pragma once

#include <apps/operator/job/job.h>

#include <string>

namespace lockstep::kube {

inline constexpr const char* kJobNameLabel = "lockstep.dev/job-name";
inline constexpr const char* kJobUidLabel = "lockstep.dev/job-uid";
inline constexpr const char* kRoleLabel = "lockstep.dev/role";
inline constexpr const char* kIndexLabel = "lockstep.dev/index";
inline constexpr const char* kAttemptLabel = "lockstep.dev/attempt";          ///< starts of all ranks
inline constexpr const char* kReplacementLabel = "lockstep.dev/replacement";  ///< of this rank, within the attempt

/// Keeps a deleted job until its state in etcd is deleted, too.
inline constexpr const char* kStateFinalizer = "lockstep.dev/recovery-state";

inline constexpr int kSchedulerPort = 6667;
inline constexpr int kStorePort = 29400;

/// "JOB-worker-3".
std::string pod_name(const std::string& job, Role role, int index);
/// The Pod's name in DNS, "JOB-worker-3.JOB.NAMESPACE.svc".
std::string pod_address(const Job& job, Role role, int index);
std::string service_name(const Job& job);
std::string config_map_name(const Job& job);
/// The name of the Secret with the certificates; empty: the job has no Secret.
std::string secret_name(const Job& job);
std::string pod_group_name(const Job& job);

/// Where the scheduler of an attempt saves its state: recovery.path, and a separate path in it from the second attempt
/// on. A scheduler with the state of the previous attempt would wait for ranks that no longer exist.
std::string state_place(const Job& job, int attempt);

/// "lockstep.dev/job-name=JOB,lockstep.dev/role=Worker".
std::string worker_selector(const Job& job);

/// Labels that all objects of a job have.
nlohmann::json job_labels(const Job& job);
/// The list of owners of an object: the job, as its controller.
nlohmann::json owned_by(const Job& job);

}  // namespace lockstep::kube
