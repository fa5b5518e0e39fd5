// The live page of a launcher's job: a server for browsers on this machine (lockstep/dashboard/), what the launcher's
// loop reports to it, and the file that stays after the job.
#pragma once

#include <lockstep/cluster/launch.h>
#include <lockstep/cluster/rank_start.h>

#include <functional>
#include <memory>
#include <string>

namespace lockstep::cluster {

/// For the launcher's thread alone.
class LivePage {
 public:
  /// Opens the port of `options.page`, which must be set, and prints the address of the page to `options.err`.
  /// `shares_job`: other launchers start ranks of the job, too. Error(io) when the port cannot be opened.
  LivePage(const LaunchOptions& options, bool shares_job);
  LivePage(const LivePage&) = delete;
  LivePage& operator=(const LivePage&) = delete;
  ~LivePage();

  /// For the supervision of one round, from 1. This object must outlive it.
  Watching watch(int round);

  /// Shows the end of the job to all browsers, closes the port and leaves the page as a file: in the folder that the
  /// ranks reported as theirs, else in that of the logs if it stays. Prints the path, or why there is no file. To be
  /// called at most once.
  void end(const LaunchResult& result, const LogFolder& logs);

 private:
  class State;
  std::unique_ptr<State> state_;
};

/// For LaunchWays::watch: opens the live page of the job; empty where the options ask for none. `options` must outlive
/// the job.
std::function<Watching(const Launch&)> watch_with_page(const LaunchOptions& options);

}  // namespace lockstep::cluster
