// The configuration of one run after it was read and checked: its values, the registered parts that they name, what a
// program brings itself, and the places of values in files. A plain value; reading it from several threads is safe.
#pragma once

#include <lockstep/base/config.h>
#include <lockstep/train/config.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace at {
class Tensor;
}
namespace torch::optim {
class Optimizer;
}

namespace lockstep::train {

struct Parts;

/// Makes an optimizer of these parameters, or of pieces of them.
using OptimizerFactory = std::function<std::unique_ptr<torch::optim::Optimizer>(const std::vector<at::Tensor>&)>;

/// Made by the functions below and by resolved_for() (program.h). A program may change its values afterwards, for
/// example `run.train.epochs = 3`; check_run_config() checks them when the run begins.
struct ResolvedRun : RunConfig {
  /// With the shipped parts.
  ResolvedRun();
  /// Values that a program sets itself, with these parts (nullptr: the shipped ones) and those of the plugins that the
  /// values name. Error(config) for a plugin that cannot be loaded, Error(invalid_argument) for a part without the
  /// function that makes it.
  explicit ResolvedRun(RunConfig values, std::shared_ptr<const Parts> parts = nullptr);

  std::shared_ptr<const Parts> parts;       ///< those that the values name (parts.h); never nullptr
  bool has_own_model = false;               ///< a program brings the model; model.name is its own name for it
  bool has_own_data = false;                ///< a program brings the data
  OptimizerFactory optimizer_factory{};     ///< a program's own; optimizer.name is that of its class then
  std::string origins{};                    ///< lines of comments that say which of several files gives which keys
  std::vector<std::string> without_effect;  ///< keys that only parts have which are not chosen, as lines of comments
  ConfigNode given{};                       ///< what was read, with its places in files, for messages
};

/// Reads the YAML file `path` over its bases (base/config.h), applies the overrides ("train.epochs=3", the value
/// is YAML too) in their order, and checks the result. Absent keys keep their defaults. Error(config) with the file and
/// the line of each mistake: text that is not YAML, unknown keys, wrong types, values out of range, missing required
/// keys, keys that contradict each other.
ResolvedRun load_run_config(const std::filesystem::path& path, std::span<const std::string> overrides = {});

/// The same with these parts (parts.h) instead of those that Lockstep brings.
ResolvedRun load_run_config(const std::filesystem::path& path, std::span<const std::string> overrides,
                            std::shared_ptr<const Parts> parts);

/// The configuration of a program that brings model, task and data itself: `defaults`, changed by the file, if there is
/// one, and then by the overrides. It has no keys for what the program brings; model.name, data.name and data.root are
/// free. Errors as above.
ResolvedRun load_program_config(RunConfig defaults, const std::optional<std::filesystem::path>& path,
                                std::span<const std::string> overrides = {});

/// Checks each value by the rules of its key, and the rules between keys. Error(config) naming the keys, their values
/// and the fix. Reads no file.
void check_run_config(const ResolvedRun& run);

}  // namespace lockstep::train
