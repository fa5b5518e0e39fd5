// Many jobs at once: how many requests a job takes, and how much memory the operator. LOCKSTEP_TEST_JOBS jobs of 8 Pods
// (20); the figures of docs/performance.md are those of 200.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <lockstep/base/environment.h>
#include <lockstep/base/file_text.h>
#include <lockstep/base/parse.h>
#include <lockstep/net/http_client.h>
#include <lockstep/operator/job/json_fields.h>

#include <sstream>
#include <thread>

#include "cli/port.h"
#include "operator/job_driver.h"
#include "operator/operator_process.h"

namespace lockstep::test {
namespace {

using namespace std::chrono_literals;

constexpr int kPods = 8;
constexpr auto kLimit = 300s;

/// The sum of a metric over its labels.
double sum_of(const std::string& metrics, const std::string& name) {
  double sum = 0;
  std::istringstream lines(metrics);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(name) && line.find(' ') != std::string::npos)
      sum += std::stod(line.substr(line.rfind(' ') + 1));
  }
  return sum;
}

/// The most memory that a process has had, MiB.
double peak_memory(pid_t pid) {
  std::istringstream status(read_file(fmt::format("/proc/{}/status", pid)).value_or(""));
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::stod(line.substr(6)) / 1024;
  }
  return 0;
}

class Fleet {
 public:
  explicit Fleet(std::string space) : client_(KubeServer::get().client()), space_(std::move(space)) {}

  void create(int jobs) {
    for (int i = 0; i < jobs; ++i) {
      const auto made =
          client_.create(path_of(kube::lockstep_jobs(), space_), simple_job(fmt::format("j{}", i), kPods));
      ASSERT_TRUE(made.ok()) << made.text();
    }
  }
  template <typename Holds>
  bool wait(const Holds& holds) {
    const auto deadline = std::chrono::steady_clock::now() + kLimit;
    while (!holds()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::sleep_for(200ms);
    }
    return true;
  }
  std::size_t pods() { return client_.list(path_of(kube::pods(), space_)).items.size(); }
  int in_phase(const std::string& phase) {
    int count = 0;
    for (const json& job : client_.list(path_of(kube::lockstep_jobs(), space_)).items) {
      count += kube::text_at(kube::object_at(job, "status"), "phase") == phase ? 1 : 0;
    }
    return count;
  }
  /// All Pods, or those of worker 0.
  void write_status(const json& status, bool only_first) {
    for (const json& pod : client_.list(path_of(kube::pods(), space_)).items) {
      if (only_first && !kube::name_of(pod).ends_with("-worker-0")) continue;
      client_.patch(path_of(kube::pods(), space_, kube::name_of(pod), "status"), {{"status", status}});
    }
  }

 private:
  kube::ApiClient client_;
  std::string space_;
};

json state(const char* phase, const json& container) {
  return {{"phase", phase},
          {"containerStatuses",
           {{{"name", "lockstep"},
             {"image", "none"},
             {"imageID", ""},
             {"ready", false},
             {"restartCount", 0},
             {"state", container}}}}};
}

TEST(OperatorFleet, AJobTakesFewRequestsAndTheOperatorLittleMemory) {
  if (const auto why = KubeServer::obstacle()) GTEST_SKIP() << *why;
  const int jobs = static_cast<int>(find_integer(current_environment(), "LOCKSTEP_TEST_JOBS", 1, 10000).value_or(20));
  const auto space = KubeServer::get().new_space();
  const auto port = free_port();
  OperatorProcess operators(KubeServer::get().kubeconfig(), space,
                            {"--no-leader-election", "--probe-address", "127.0.0.1:" + port});
  net::HttpClient probes({"127.0.0.1", static_cast<std::uint16_t>(*parse_integer(port))}, nullptr, 1 << 20);
  const auto requests = [&] {
    return sum_of(probes.get("/metrics", std::chrono::steady_clock::now() + 30s).body,
                  "lockstep_operator_requests_total");
  };
  Fleet fleet(space);
  fleet.create(jobs);
  ASSERT_TRUE(fleet.wait([&] { return fleet.pods() == static_cast<std::size_t>(jobs * kPods); }));
  const double until_pods = requests() / jobs;
  fleet.write_status(state("Running", {{"running", {{"startedAt", "2026-01-01T00:00:00Z"}}}}), false);
  ASSERT_TRUE(fleet.wait([&] { return fleet.in_phase("Running") == jobs; }));
  fleet.write_status(state("Succeeded", {{"terminated", {{"exitCode", 0}}}}), true);
  ASSERT_TRUE(fleet.wait([&] { return fleet.in_phase("Succeeded") == jobs; }));
  const double until_end = requests() / jobs;
  const double memory = peak_memory(operators.child().pid());
  fmt::print(
      "{} jobs of {} Pods: {:.1f} requests for each job until its Pods exist, {:.1f} until its end; {:.0f} MiB\n", jobs,
      kPods, until_pods, until_end, memory);
  // Two statuses, Service, ConfigMap, 8 Pods, event; a few for the lists and watches of all.
  EXPECT_LT(until_pods, kPods + 7);
  EXPECT_LT(memory, 128);
}

}  // namespace
}  // namespace lockstep::test
