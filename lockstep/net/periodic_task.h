// A periodic task on an io_context.
#pragma once

#include <chrono>
#include <functional>

namespace boost::asio {
class io_context;
}

namespace lockstep::net {

struct PeriodicTask {
  std::chrono::milliseconds interval{};  ///< the pause before each call
  std::function<void()> call{};          ///< throws nothing; empty: no task
};

/// Runs the task periodically, on the thread that runs `context`, until that stops.
void run_periodically(boost::asio::io_context& context, PeriodicTask task);

}  // namespace lockstep::net
