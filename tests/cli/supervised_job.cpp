#include "cli/supervised_job.h"

#include "support/port.h"

#include <fmt/format.h>

#include <csignal>
#include <nlohmann/json.hpp>
#include <thread>

namespace lockstep::test {
namespace {

constexpr int kScheduler = -1;

std::string end_of(const std::string& text) {
  constexpr std::size_t kLongest = 1500;
  return text.size() > kLongest ? text.substr(text.size() - kLongest) : text;
}

std::string worker_log(int number) { return fmt::format("worker_{}.log", number); }

}  // namespace

SupervisedJob::SupervisedJob(std::filesystem::path folder, Words command, int workers, Environment variables,
                             OnHost on_host)
    : folder_(std::move(folder)),
      command_(std::move(command)),
      variables_(std::move(variables)),
      on_host_(std::move(on_host)),
      workers_(workers) {
  std::filesystem::create_directories(folder_);
  variables_.insert({{"MS_WORKER_NUM", std::to_string(workers)},
                     {"MS_SCHED_HOST", "127.0.0.1"},
                     {"MS_SCHED_PORT", free_port()},
                     {"MS_ENABLE_RECOVERY", "1"},
                     {"MS_RECOVERY_PATH", (folder_ / "state").string()}});
}

std::unique_ptr<Child> SupervisedJob::start(int process, const std::string& log, const Environment& more) const {
  ChildOptions child;
  child.arguments = {"bash", "-c", "exec \"$@\" >>\"$0\" 2>&1", folder_ / log};
  child.arguments.insert(child.arguments.end(), command_.begin(), command_.end());
  if (on_host_) child.arguments = on_host_(process, std::move(child.arguments));
  child.environment = environment_with(variables_);
  for (const auto& [name, value] : more) child.environment->insert_or_assign(name, value);
  return std::make_unique<Child>(child);
}

void SupervisedJob::start_worker(int number, const Environment& more) {
  Environment own = {{"MS_ROLE", "MS_WORKER"}, {"MS_NODE_ID", fmt::format("worker_{}", number)}};
  own.insert(more.begin(), more.end());
  workers_.at(static_cast<std::size_t>(number)).process = start(number, worker_log(number), own);
}

void SupervisedJob::start_scheduler() {
  scheduler_ = start(kScheduler, "scheduler.log", {{"MS_ROLE", "MS_SCHED"}, {"MS_NODE_ID", "sched"}});
}

void SupervisedJob::start_all() {
  start_scheduler();
  for (int number = 0; number < workers(); ++number) {
    if (!workers_[static_cast<std::size_t>(number)].process) start_worker(number);
  }
}

bool SupervisedJob::signal_worker(int number, int signal) {
  const Worker& worker = workers_.at(static_cast<std::size_t>(number));
  if (worker.done || !worker.process || worker.process->poll()) return false;
  worker.process->signal_group(signal);
  return true;
}

bool SupervisedJob::is_stopped(int number) const {
  const Worker& worker = workers_.at(static_cast<std::size_t>(number));
  if (!worker.process) return false;
  const auto stat = read_file(fmt::format("/proc/{}/stat", worker.process->pid()));
  const auto name_ends = stat.rfind(')');  // of "<pid> (<name>) <state> ..."
  return name_ends != std::string::npos && stat.compare(name_ends, 3, ") T") == 0;
}

void SupervisedJob::signal_scheduler(int signal) {
  if (!scheduler_->poll()) scheduler_->signal_group(signal);
}

void SupervisedJob::kill_scheduler() { signal_scheduler(SIGKILL); }

bool SupervisedJob::tend() {
  bool all_done = true;
  bool one_done = false;
  for (Worker& worker : workers_) {
    if (!worker.done) {
      const auto status = worker.process->poll();
      worker.done = status && status->ok();
    }
    one_done = one_done || worker.done;
    all_done = all_done && worker.done;
  }
  for (int number = 0; number < workers(); ++number) {
    Worker& worker = workers_[static_cast<std::size_t>(number)];
    if (worker.done || !worker.process->poll()) continue;
    // The others have all they need once one of them has ended well.
    if (one_done) {
      worker.done = true;
      continue;
    }
    ++restarts_;
    start_worker(number);
  }
  if (const auto status = scheduler_->poll()) {
    scheduler_done_ = scheduler_done_ || status->ok();
    if (!scheduler_done_ && !one_done) start_scheduler();
  }
  return all_done;
}

bool SupervisedJob::tend_to_the_end(std::chrono::seconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (!tend()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return true;
}

std::string SupervisedJob::log_of_worker(int number) const { return read_file(folder_ / worker_log(number)); }
std::string SupervisedJob::log_of_scheduler() const { return read_file(folder_ / "scheduler.log"); }

std::string SupervisedJob::last_words() const {
  std::string text = "scheduler:\n" + end_of(log_of_scheduler());
  for (int number = 0; number < workers(); ++number) {
    text += fmt::format("\nworker {}:\n{}", number, end_of(log_of_worker(number)));
  }
  return text;
}

std::string hash_in(const std::filesystem::path& work_dir) {
  const auto file = work_dir / "result.json";
  if (!std::filesystem::exists(file)) return {};
  return nlohmann::json::parse(read_file(file)).at("params_sha256").get<std::string>();
}

}  // namespace lockstep::test
