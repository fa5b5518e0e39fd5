// One child of spawn(): a fork of this process that runs a function; and checks that the calling thread is the only
// one, which forking without exec requires. Internal to spawn.h.
#pragma once

#include <lockstep/base/process.h>
#include <lockstep/cluster/processes/helper.h>
#include <lockstep/cluster/report.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::cluster {

/// The function that a child runs, and the variables it gets in addition to this process's environment (nullopt:
/// unset).
struct ChildTask {
  std::function<void()> body;
  std::map<std::string, std::optional<std::string>> variables;
  std::filesystem::path error_file;  ///< where the child writes why it failed
};

/// A child held by pidfd, leader of its own process group, which is killed when this handle or this process ends.
class ForkedChild {
 public:
  /// `lifeline` is this process's; the child closes its copy. Error(io) when no process can be made.
  ForkedChild(int index, const ChildTask& task, std::unique_ptr<Lifeline>& lifeline);
  ForkedChild(ForkedChild&& other) noexcept;
  ForkedChild& operator=(ForkedChild&&) = delete;
  ~ForkedChild();

  pid_t pid() const noexcept { return end_.pid; }
  bool running() const noexcept { return running_; }
  int end_fd() const noexcept { return pidfd_.get(); }

  /// Sends a signal to its whole group; does nothing after its end.
  void signal(int number);

  /// Call it when end_fd() is readable: records how the child ended, and kills the rest of its group.
  void look_for_end();

  /// How the child ended, with the reason from its error file.
  const RankEnd& end() const { return end_; }

 private:
  bool running_ = false;
  UniqueFd pidfd_;
  std::optional<GroupKeeper> keeper_;
  std::filesystem::path error_file_;
  RankEnd end_;
};

/// The names of the other threads of this process. Ends pools that stop at a fork, such as OpenBLAS's, and does not
/// count them.
std::vector<std::string> other_threads();

/// Error(unsupported), naming the other threads of this process, unless there are none.
void require_single_thread();

/// While it exists, forked processes compute with one thread each in the loaded libraries; the destructor restores the
/// settings of this process.
class OneThreadEach {
 public:
  OneThreadEach();
  OneThreadEach(const OneThreadEach&) = delete;
  OneThreadEach& operator=(const OneThreadEach&) = delete;
  ~OneThreadEach();

 private:
  std::optional<int> openmp_;
  std::optional<int> openblas_;
};

}  // namespace lockstep::cluster
