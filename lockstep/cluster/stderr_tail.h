// The last lines that a rank wrote to stderr: often the only information on why it failed.
#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::cluster {

class StderrTail {
 public:
  explicit StderrTail(std::size_t lines = 12, std::size_t width = 400) : lines_(lines), width_(width) {}

  /// Takes a line with or without its end; blank ones, and those that a progress bar overwrites, are not kept.
  void add(std::string_view line);

  /// Oldest first.
  std::vector<std::string> lines() const { return {kept_.begin(), kept_.end()}; }

 private:
  std::size_t lines_;
  std::size_t width_;
  std::deque<std::string> kept_;
};

}  // namespace lockstep::cluster
