// One child of spawn(): a fork of this process that runs a function. Internal to spawn.h.
#pragma once

#include <lockstep/base/process.h>
#include <lockstep/cluster/group_keeper.h>
#include <lockstep/cluster/report.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>

namespace lockstep::cluster {

/// What a child runs, and what it finds in its environment on top of this process's (nullopt: unset).
struct ChildTask {
  std::function<void()> body;
  std::map<std::string, std::optional<std::string>> variables;
  std::filesystem::path error_file;  ///< where the child leaves why it failed
};

/// Held by identity, and leader of its own process group, which dies with this handle and with this process.
class ForkedChild {
 public:
  /// `lifeline` is this process's; the child lets go of its copy. Error(io) when no process can be made.
  ForkedChild(int index, const ChildTask& task, std::unique_ptr<Lifeline>& lifeline);
  ForkedChild(ForkedChild&& other) noexcept;
  ForkedChild& operator=(ForkedChild&&) = delete;
  ~ForkedChild();

  pid_t pid() const noexcept { return end_.pid; }
  bool running() const noexcept { return running_; }
  int end_fd() const noexcept { return pidfd_.get(); }

  /// To its whole group; nothing once it has ended.
  void signal(int number);

  /// Call it when end_fd() is readable: takes note of how it ended, and kills what it left in its group.
  void look_for_end();

  /// How it ended, with the reason that it left.
  const RankEnd& end() const { return end_; }

 private:
  bool running_ = false;
  UniqueFd pidfd_;
  std::optional<GroupKeeper> keeper_;
  std::filesystem::path error_file_;
  RankEnd end_;
};

}  // namespace lockstep::cluster
