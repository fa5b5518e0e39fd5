// The subcommands of `lockstep`, one file each.
#pragma once

#include <functional>

namespace CLI {
class App;
}

namespace lockstep::cli {

inline constexpr int kOk = 0;
inline constexpr int kFailed = 1;  ///< the run, the check or a rank failed
inline constexpr int kUsage = 2;   ///< the command line, the configuration or the environment is wrong

/// What the command line asked for; its result is the exit code.
using Action = std::function<int()>;

// Each adds its subcommand to `app`, which sets `chosen` when the user gave it.
void add_train(CLI::App& app, Action& chosen);
void add_run(CLI::App& app, Action& chosen);
void add_data(CLI::App& app, Action& chosen);
void add_bench(CLI::App& app, Action& chosen);
void add_info(CLI::App& app, Action& chosen);

}  // namespace lockstep::cli
