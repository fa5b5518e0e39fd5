// Completed steps by worker; they determine the workers for which a request must wait.
#include <lockstep/parameter_servers/worker_clocks.h>

#include <algorithm>

namespace lockstep::parameter_servers {

WorkerClocks::WorkerClocks(std::size_t workers, std::int64_t step, std::int64_t most_ahead)
    : completed_(workers, step), finished_(workers), most_ahead_(most_ahead) {}

std::int64_t WorkerClocks::slowest() const { return *std::ranges::min_element(completed_); }

std::vector<std::size_t> WorkerClocks::awaited_to_begin(std::int64_t step) const {
  std::vector<std::size_t> awaited;
  for (std::size_t worker = 0; worker < completed_.size(); ++worker) {
    if (!finished_[worker] && step - completed_[worker] > most_ahead_) awaited.push_back(worker);
  }
  return awaited;
}

std::vector<std::size_t> WorkerClocks::behind(std::int64_t step) const {
  std::vector<std::size_t> behind;
  for (std::size_t worker = 0; worker < completed_.size(); ++worker) {
    if (completed_[worker] < step) behind.push_back(worker);
  }
  return behind;
}

}  // namespace lockstep::parameter_servers
