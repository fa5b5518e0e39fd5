// The frame of a simulated life of either kind: its clock, its processes, its trace, and the promise that was broken.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <iosfwd>
#include <string>

#include "simulation/chance.h"
#include "simulation/life.h"
#include "simulation/timeline.h"

namespace lockstep::simulation {

/// A process as the kernel has it: what is delivered to it waits while it is stopped, or blocked.
struct Process {
  std::int64_t pid = 0;
  bool alive = false;
  Time blocked_until{};
  std::deque<std::function<void()>> held{};
};

class Frame {
 public:
  Frame(const Frame&) = delete;
  Frame& operator=(const Frame&) = delete;

 protected:
  explicit Frame(std::ostream* trace) : trace_(trace) {}
  ~Frame() = default;

  void deliver(Process& process, std::function<void()> what);
  void drain(Process& process);
  void block(Process& process, milliseconds time);
  /// Ends the life.
  void violate(const std::string& what);
  virtual void note(const std::string& text);
  /// Into the digest.
  void mix(const std::string& text);

  Outcome outcome_;
  Timeline timeline_;

 private:
  std::ostream* trace_;
};

}  // namespace lockstep::simulation
