// A periodic task on an io_context.
#pragma once

#include <chrono>
#include <functional>

namespace boost::asio {
class io_context;
}

namespace lockstep::scheduler {

struct Chore {
  std::chrono::milliseconds interval{};  ///< before each time
  std::function<void()> call{};          ///< throws nothing; empty: there is nothing to do
};

/// Runs the chore periodically, on the thread that runs `context`, until that stops.
void keep_doing(boost::asio::io_context& context, Chore chore);

}  // namespace lockstep::scheduler
