// A job on a real API server, and a test that plays the kubelets' part.
#pragma once

#include <apps/operator/api/resource.h>
#include <apps/operator/job/job.h>

#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "operator/kube_server.h"

namespace lockstep::test {

using nlohmann::json;

/// A job with so many workers in mode Run (Scheduler: with that role).
json simple_job(const std::string& name, int workers, const std::string& mode = "Run");

class JobDriver {
 public:
  JobDriver(std::string space, std::string name)
      : client_(KubeServer::get().client()), space_(std::move(space)), name_(std::move(name)) {}

  const std::string& name() const { return name_; }
  void create(json object);
  json object();  ///< null when there is none
  kube::Status status();
  void patch(const json& merge);
  void remove();

  std::vector<json> pods();
  /// Null when there is none.
  json pod(const std::string& suffix);
  json find(const kube::Resource& resource, const std::string& name);

  /// As a kubelet would: the Pod is assigned to a node, and runs.
  void run_pod(const std::string& suffix);
  void run_all();
  /// Its container has ended.
  void end_pod(const std::string& suffix, int exit_code, const std::string& message = "",
               const std::string& reason = "");
  /// As a kubelet does with a Pod that is being deleted, once its processes have ended.
  void finish_deletion(const std::string& suffix);
  /// All that are being deleted.
  void finish_deletions();

  /// The life of a job of two workers: they run, worker 1 is killed, and in the second attempt worker 0 succeeds. Calls
  /// `look` again and again. False: it has not ended after a while.
  bool lose_worker_and_end(const std::function<void()>& look = {});

  /// Waits until it holds; false, with what there is in the message, after 30 s.
  bool wait(const std::function<bool()>& holds);
  bool wait_phase(const std::string& phase);
  bool wait_pods(std::size_t count);
  std::string describe();

  /// Reasons of the job's events, in no order.
  std::vector<std::string> event_reasons();

 private:
  void write_pod_status(const json& pod, json status);

  kube::ApiClient client_;
  std::string space_;
  std::string name_;
};

}  // namespace lockstep::test
