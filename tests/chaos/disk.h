// The disk that a job's checkpoints and its scheduler's state lie on: it can be full for a while, or slow.
#pragma once

#include <lockstep/base/environment.h>

#include <chrono>
#include <filesystem>
#include <string>

namespace lockstep::test {

class Disk {
 public:
  /// An empty one over `folder`, which is made, for this process and its children. What cannot be done here leaves an
  /// obstacle.
  explicit Disk(std::filesystem::path folder);
  Disk(const Disk&) = delete;
  Disk& operator=(const Disk&) = delete;
  ~Disk();

  const std::filesystem::path& folder() const { return folder_; }
  /// Why it cannot be full; empty when it can.
  const std::string& obstacle() const { return obstacle_; }

  void fill();
  void free();

  /// What makes it slow for a process: a library in front of the kernel's fsync (slow_fsync.cpp).
  Environment variables() const;
  /// From now on, for whoever has these variables, and until told otherwise; 0: as fast as it is.
  void delay_each_sync(std::chrono::milliseconds time);

 private:
  std::filesystem::path ballast() const { return folder_ / "ballast"; }

  std::filesystem::path folder_;
  std::filesystem::path delay_;  ///< a file beside it
  std::string obstacle_;
};

}  // namespace lockstep::test
