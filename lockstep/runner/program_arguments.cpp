#include <lockstep/base/config.h>
#include <lockstep/base/error.h>
#include <lockstep/data/dataset.h>
#include <lockstep/models/registry.h>
#include <lockstep/runner/program_arguments.h>
#include <lockstep/train/config_keys.h>
#include <lockstep/world/world.h>

#include <fmt/ranges.h>

#include <CLI/CLI.hpp>

namespace lockstep::runner {

namespace {

/// "train.epochs (integer, from 1, default 3)", and what it means on a line of its own.
std::string keys_line(const ConfigKey& key) {
  std::string facts = key.type;
  if (!key.allowed.empty()) facts += ", " + key.allowed;
  facts += key.default_value == "required" ? ", required" : fmt::format(", default {}", key.default_value);
  return fmt::format("{} ({})\n      {}", key.path, facts, key.doc);
}

}  // namespace

void add_program_options(CLI::App& app, ProgramArguments& arguments) {
  app.add_option("--config", arguments.config, "The YAML file that describes the run")->type_name("FILE");
  // CLI11 2.4 refuses a name with '='.
  app.add_option("KEYS", arguments.overrides, "Replaces a key of the file, e.g. train.epochs=3 optimizer.lr=0.1")
      ->type_name("KEY=VALUE");
  app.add_option("--launcher", arguments.launcher, fmt::format("Its launcher:\n{}", fmt::join(launcher_names(), ", ")))
      ->type_name("NAME")
      ->capture_default_str();
  app.add_option("--init-method,--init_method", arguments.init.init_method,
                 "Where ranks meet: tcp://HOST:PORT of node 0, file:///PATH or env://")
      ->type_name("URL");
  app.add_option("--rank", arguments.init.rank, "The number of this node (not of a rank), with --world_size")
      ->type_name("N");
  app.add_option("--world-size,--world_size", arguments.init.world_size, "How many nodes there are")->type_name("N");
  app.add_flag("--dry-run,--dry_run", arguments.dry_run,
               "Only print the whole configuration, the model and, with parallel.mode auto, the plan");
  app.add_option("--list", arguments.list, "List what a key can name: models, data or tasks")->type_name("KIND");
  app.add_flag("--help-keys", arguments.help_keys, "List every key of the configuration with type, range and default");
}

void print_keys(const train::RunConfig& config) {
  const auto keys = list_fields([copy = config](ConfigFields& fields) mutable { describe(fields, copy); });
  for (const ConfigKey& key : keys) {
    if (key.type.starts_with("section")) {
      fmt::print("\n{}: {}\n", key.path, key.doc);
      continue;
    }
    fmt::print("  {}\n", keys_line(key));
  }
  const auto print_part_keys = [](std::string_view section, auto parts) {
    for (auto& part : parts) {
      fmt::print("\n{} ({}): {}\n", section, part.name, part.doc);
      for (const ConfigKey& key : list_fields([&](ConfigFields& fields) { part.options.visit(fields); })) {
        fmt::print("  {}.{}\n", section, keys_line(key));
      }
    }
  };
  if (config.model.is_own || !config.model.parts) return;
  print_part_keys("model", config.model.parts->models);
  print_part_keys("task", config.model.parts->tasks);
  print_part_keys("data", config.model.parts->data);
}

void print_parts(const train::Parts& parts, const std::string& kind) {
  const auto print = [](const auto& list) {
    for (const auto& part : list) fmt::print("{:<20} {}\n", part.name, part.doc);
  };
  if (kind == "models") {
    for (const auto& name : models::model_names()) fmt::print("{:<20} a classifier of pictures\n", name);
    print(parts.models);
  } else if (kind == "data") {
    for (const auto& name : data::dataset_names()) fmt::print("{:<20} labelled pictures\n", name);
    print(parts.data);
  } else if (kind == "tasks") {
    print(parts.tasks);
  } else {
    fail(ErrorKind::invalid_argument, "train", "--list takes models, data or tasks, not '{}'", kind);
  }
}

void refuse_file_without_flag(const ProgramArguments& arguments, const std::string& command) {
  for (const auto& word : arguments.overrides) {
    const bool is_yaml = word.ends_with(".yaml") || word.ends_with(".yml");
    if (!is_yaml || word.find('=') != std::string::npos) continue;
    fail(ErrorKind::invalid_argument, "train", "{} is given without --config{}", word,
         arguments.config.empty()
             ? fmt::format("; write {} --config {}", command, word)
             : fmt::format(", and {} with it; a run has one file, and KEY=VALUE to change it", arguments.config));
  }
}

std::vector<std::string> rank_command(std::vector<std::string> program, const ProgramArguments& arguments) {
  if (!arguments.config.empty()) program.insert(program.end(), {"--config", arguments.config});
  program.insert(program.end(), {"--launcher", "pytorch"});
  program.insert(program.end(), arguments.overrides.begin(), arguments.overrides.end());
  return program;
}

}  // namespace lockstep::runner
