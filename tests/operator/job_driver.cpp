#include "operator/job_driver.h"

#include <apps/operator/api/resource.h>
#include <apps/operator/job/json.h>
#include <apps/operator/job/names.h>
#include <fmt/format.h>
#include <lockstep/base/error.h>

#include <thread>

namespace lockstep::test {
namespace {

using namespace std::chrono_literals;
using kube::Outcome;

constexpr auto kLimit = 240s;

void expect(const kube::Answer& answer, const std::string& what) {
  if (!answer.ok()) fail(ErrorKind::io, "test", "cannot {}: {}", what, answer.text());
}

/// Whether there is such an object or not.
void expect_known(const kube::Answer& answer) {
  if (answer.outcome != Outcome::missing) expect(answer, "read an object");
}

}  // namespace

json simple_job(const std::string& name, int workers, const std::string& mode) {
  const json container = {{"name", "lockstep"}, {"image", "none"}, {"command", {"lockstep", "train"}}};
  return {{"apiVersion", "lockstep.dev/v1alpha1"},
          {"kind", "LockstepJob"},
          {"metadata", {{"name", name}}},
          {"spec",
           {{"mode", mode},
            {"replicaSpecs",
             {{"Worker", {{"replicas", workers}, {"template", {{"spec", {{"containers", {container}}}}}}}}}}}}};
}

void JobDriver::create(json object) {
  expect(client_.create(path_of(kube::lockstep_jobs(), space_), object), "create the job");
}

json JobDriver::object() { return find(kube::lockstep_jobs(), name_); }

kube::Status JobDriver::status() { return kube::parse_status(kube::object_at(object(), "status")); }

void JobDriver::patch(const json& merge) {
  expect(client_.patch(path_of(kube::lockstep_jobs(), space_, name_), merge), "change the job");
}

void JobDriver::remove() {
  expect(client_.remove(path_of(kube::lockstep_jobs(), space_, name_), {}), "delete the job");
}

std::vector<json> JobDriver::pods() {
  auto listed = client_.list(path_of(kube::pods(), space_), fmt::format("{}={}", kube::kJobNameLabel, name_));
  return std::move(listed.items);
}

json JobDriver::find(const kube::Resource& resource, const std::string& name) {
  auto answer = client_.get(path_of(resource, space_, name));
  expect_known(answer);
  return answer.ok() ? std::move(answer.object) : json();
}

json JobDriver::pod(const std::string& suffix) { return find(kube::pods(), name_ + "-" + suffix); }

void JobDriver::write_pod_status(const json& pod, json status) {
  expect(client_.patch(path_of(kube::pods(), space_, kube::name_of(pod), "status"), {{"status", std::move(status)}}),
         "write a Pod's status");
}

void JobDriver::run_pod(const std::string& suffix) {
  const json found = pod(suffix);
  if (found.is_null()) fail(ErrorKind::io, "test", "there is no Pod {}; {}", suffix, describe());
  if (kube::text_at(kube::object_at(found, "spec"), "nodeName").empty()) {
    const json binding = {{"metadata", {{"name", kube::name_of(found)}}},
                          {"target", {{"apiVersion", "v1"}, {"kind", "Node"}, {"name", "node-1"}}}};
    expect(client_.create(path_of(kube::pods(), space_, kube::name_of(found), "binding"), binding), "bind a Pod");
  }
  write_pod_status(found, {{"phase", "Running"},
                           {"conditions", {{{"type", "Ready"}, {"status", "True"}}}},
                           {"containerStatuses",
                            {{{"name", "lockstep"},
                              {"image", "none"},
                              {"imageID", ""},
                              {"ready", true},
                              {"restartCount", 0},
                              {"state", {{"running", {{"startedAt", "2026-01-01T00:00:00Z"}}}}}}}}});
}

void JobDriver::run_all() {
  for (const json& each : pods()) {
    const auto phase = kube::text_at(kube::object_at(each, "status"), "phase");
    if (phase == "Pending" && kube::text_at(kube::object_at(each, "metadata"), "deletionTimestamp").empty()) {
      run_pod(kube::name_of(each).substr(name_.size() + 1));
    }
  }
}

void JobDriver::end_pod(const std::string& suffix, int exit_code, const std::string& message,
                        const std::string& reason) {
  const auto now = kube::time_text(std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now()));
  json terminated = {{"exitCode", exit_code},
                     {"reason", reason.empty() ? exit_code == 0 ? "Completed" : "Error" : reason}};
  terminated["finishedAt"] = now;
  if (!message.empty()) terminated["message"] = message;
  write_pod_status(pod(suffix), {{"phase", exit_code == 0 ? "Succeeded" : "Failed"},
                                 {"conditions", {{{"type", "Ready"}, {"status", "False"}}}},
                                 {"containerStatuses",
                                  {{{"name", "lockstep"},
                                    {"image", "none"},
                                    {"imageID", ""},
                                    {"ready", false},
                                    {"restartCount", 0},
                                    {"state", {{"terminated", terminated}}}}}}});
}

void JobDriver::finish_deletion(const std::string& suffix) {
  const json found = pod(suffix);
  if (found.is_null()) return;
  client_.remove(path_of(kube::pods(), space_, kube::name_of(found)), {.uid = kube::uid_of(found), .grace_seconds = 0});
}

void JobDriver::finish_deletions() {
  for (const json& each : pods()) {
    if (kube::text_at(kube::object_at(each, "metadata"), "deletionTimestamp").empty()) continue;
    finish_deletion(kube::name_of(each).substr(name_.size() + 1));
  }
}

bool JobDriver::lose_worker_and_end(const std::function<void()>& look) {
  bool lost = false;
  return wait([&] {
    if (look) look();
    run_all();
    finish_deletions();
    const auto now = status();
    if (now.phase == "Running" && now.attempt == 1 && !lost) {
      end_pod("worker-1", 137);
      lost = true;
    }
    if (now.phase == "Running" && now.attempt == 2) end_pod("worker-0", 0);
    return now.final();
  });
}

bool JobDriver::wait(const std::function<bool()>& holds) {
  const auto deadline = std::chrono::steady_clock::now() + kLimit;
  while (!holds()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(20ms);
  }
  return true;
}

bool JobDriver::wait_phase(const std::string& phase) {
  return wait([&] { return status().phase == phase; });
}

bool JobDriver::wait_pods(std::size_t count) {
  return wait([&] { return pods().size() == count; });
}

std::string JobDriver::describe() {
  std::string text = "status: " + kube::object_at(object(), "status").dump(1) + "\npods:";
  for (const json& each : pods()) {
    text += fmt::format(" {} ({}{})", kube::name_of(each), kube::text_at(kube::object_at(each, "status"), "phase"),
                        kube::object_at(each, "metadata").contains("deletionTimestamp") ? ", is deleted" : "");
  }
  return text;
}

std::vector<std::string> JobDriver::event_reasons() {
  std::vector<std::string> reasons;
  for (const json& event : client_.list(path_of(kube::events(), space_)).items) {
    if (kube::text_at(kube::object_at(event, "involvedObject"), "name") == name_)
      reasons.push_back(kube::text_at(event, "reason"));
  }
  return reasons;
}

}  // namespace lockstep::test
