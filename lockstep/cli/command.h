// The subcommands of `lockstep`, one file each.
#pragma once

#include <lockstep/cluster/failure.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace lockstep::train {
struct Parts;
}

namespace lockstep::cli {

using cluster::kFailed;
using cluster::kOk;
using cluster::kUsage;

struct Converter;

/// The parts that a configuration can name, before its plugins.
using KnownParts = std::shared_ptr<const train::Parts>;

/// The selected command; its result is the exit code.
using Action = std::function<int()>;

// Each adds its subcommand to `app`, which sets `chosen` when the user gave it.
void add_train(CLI::App& app, const KnownParts& parts, Action& chosen);
void add_eval(CLI::App& app, const KnownParts& parts, Action& chosen);
void add_predict(CLI::App& app, const KnownParts& parts, Action& chosen);
// When the action runs, `program` has the arguments that read_run_line() found after the flags.
void add_run(CLI::App& app, const std::vector<std::string>& program, Action& chosen);
void add_launch(CLI::App& app, const std::vector<std::string>& program, Action& chosen);
void add_plan(CLI::App& app, const KnownParts& parts, Action& chosen);
void add_calibrate(CLI::App& app, Action& chosen);
void add_data(CLI::App& app, const KnownParts& parts, Action& chosen);
void add_checkpoint(CLI::App& app, Action& chosen);
void add_rank_table(CLI::App& app, Action& chosen);
void add_doctor(CLI::App& app, const KnownParts& parts, Action& chosen);
void add_certs(CLI::App& app, Action& chosen);
void add_scheduler(CLI::App& app, const KnownParts& parts, Action& chosen);
void add_status(CLI::App& app, const KnownParts& parts, Action& chosen);
void add_bench(CLI::App& app, Action& chosen);
void add_convert(CLI::App& app, const std::vector<Converter>& converters, Action& chosen);
void add_info(CLI::App& app, const KnownParts& parts, Action& chosen);

}  // namespace lockstep::cli
