// The parts of a simulated life that its kind does not matter for: processes that can be stopped, and the trace.
#include "simulation/frame.h"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>
#include <utility>

namespace lockstep::simulation {

void Frame::note(const std::string& text) {
  if (trace_ == nullptr) return;
  const auto since = timeline_.now().time_since_epoch() - std::chrono::hours(1);
  *trace_ << fmt::format("{:10.3f}  {}\n", std::chrono::duration<double>(since).count(), text);
}

void Frame::violate(const std::string& what) {
  note("VIOLATION: " + what);
  if (outcome_.violation.empty()) outcome_.violation = what;
}

void Frame::mix(const std::string& text) {
  for (const char c : text) outcome_.digest = (outcome_.digest ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
}

void Frame::deliver(Process& process, std::function<void()> what) {
  if (!process.alive) return;
  if (process.held.empty() && process.blocked_until <= timeline_.now()) return what();
  process.held.push_back(std::move(what));
}

void Frame::block(Process& process, milliseconds time) {
  if (!process.alive) return;
  process.blocked_until = std::max(process.blocked_until, timeline_.now() + time);
  timeline_.at(process.blocked_until, [this, &process, pid = process.pid] {
    if (process.pid == pid) drain(process);
  });
}

void Frame::drain(Process& process) {
  while (process.alive && !process.held.empty() && process.blocked_until <= timeline_.now()) {
    const auto what = std::move(process.held.front());
    process.held.pop_front();
    what();
  }
}

}  // namespace lockstep::simulation
