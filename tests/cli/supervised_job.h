// A job with a scheduler and recovery, looked after as a cluster manager would: what dies is started again.
#pragma once

#include "cli/program.h"

#include <lockstep/base/process.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace lockstep::test {

/// The words that run a program where a worker (its number) or the scheduler (-1) is to be.
using OnHost = std::function<Words(int process, Words words)>;

class SupervisedJob {
 public:
  /// `command`: a `lockstep train` line, whose workers and scheduler keep their logs and, unless `variables` say
  /// otherwise, the state in `folder`. Without `on_host`, all are on this one.
  SupervisedJob(std::filesystem::path folder, Words command, int workers, Environment variables = {},
                OnHost on_host = {});

  /// Worker `number` with more variables, which its replacements do not have.
  void start_worker(int number, const Environment& more = {});
  void start_scheduler();
  /// The scheduler, and all workers that were not started before.
  void start_all();

  /// To a worker that runs; false when it does not.
  bool signal_worker(int number, int signal);
  /// Whether a worker has been stopped by a signal.
  bool is_stopped(int number) const;
  void signal_scheduler(int signal);
  void kill_scheduler();

  /// Starts again what has died. True once all workers have ended well.
  bool tend();
  /// Tends it until that, at most for `limit`; whether it came to that.
  bool tend_to_the_end(std::chrono::seconds limit);

  int workers() const { return static_cast<int>(workers_.size()); }
  int restarts() const { return restarts_; }  ///< of workers
  const Environment& variables() const { return variables_; }
  std::string log_of_worker(int number) const;
  std::string log_of_scheduler() const;
  /// The ends of all logs, for messages.
  std::string last_words() const;

 private:
  struct Worker {
    std::unique_ptr<Child> process;
    bool done = false;
  };
  std::unique_ptr<Child> start(int process, const std::string& log, const Environment& more) const;

  std::filesystem::path folder_;
  Words command_;
  Environment variables_;
  OnHost on_host_;
  std::vector<Worker> workers_;
  std::unique_ptr<Child> scheduler_;
  bool scheduler_done_ = false;
  int restarts_ = 0;
};

/// params_sha256 of the result in a run's folder; empty when there is none.
std::string hash_in(const std::filesystem::path& work_dir);

}  // namespace lockstep::test
