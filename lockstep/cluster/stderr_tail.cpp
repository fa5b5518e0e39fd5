#include <lockstep/cluster/stderr_tail.h>

namespace lockstep::cluster {

void StderrTail::add(std::string_view line) {
  const bool redrawn = line.ends_with('\r');
  const std::size_t last = line.find_last_not_of("\r\n \t");
  if (redrawn || last == std::string_view::npos) return;
  line = line.substr(0, last + 1);
  kept_.push_back(line.size() <= width_ ? std::string(line) : std::string(line.substr(0, width_)) + "...");
  if (kept_.size() > lines_) kept_.pop_front();
}

}  // namespace lockstep::cluster
