// Runs a test body in several forked processes, with a deadline, and tells how each ended.
//
// The children are forked without exec, so the parent must have no threads of its own when it calls this: it must not
// have run tensor code on several threads, made a store, or joined a group. lockstep_test_main sees to thread pools.
#pragma once

#include <lockstep/base/environment.h>
#include <lockstep/base/process.h>

#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace lockstep::test {

struct ForkOptions {
  std::chrono::milliseconds deadline = std::chrono::seconds(60);
  Environment environment = {};  ///< set in every child, on top of this process's
};

/// How one child ended. A failed assertion, a skipped test or an exception in it is exit code 1.
struct Outcome {
  int rank = 0;
  ExitStatus status;
  bool hit_deadline = false;  ///< still ran at the deadline and was killed for it
  std::string output;         ///< all it wrote to stdout and stderr, failed assertions included

  bool ok() const { return status.ok() && !hit_deadline; }
};

/// Runs body(0) ... body(n - 1), each in its own process and process group, and waits for all of them. Never fails a
/// test by itself and leaves no process behind, whatever the children do. Error(io) when no process can be made.
std::vector<Outcome> fork_outcomes(int n, const ForkOptions& options, const std::function<void(int)>& body);

/// The same, and a test failure in the parent that shows the output of each child that did not end well.
void fork_ranks(int n, const ForkOptions& options, const std::function<void(int)>& body);

/// Adds a failure to the current test for each outcome that is not ok.
void expect_all_ok(const std::vector<Outcome>& outcomes);

/// For messages: "rank 2: exit code 1" and its output, indented.
std::string describe(const Outcome& outcome);

}  // namespace lockstep::test
