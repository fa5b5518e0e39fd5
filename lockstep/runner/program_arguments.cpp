// Options of a training program (--config, KEY=VALUE, --launcher, ...), and the lists of its keys and parts.
#include <lockstep/base/config.h>
#include <lockstep/base/error.h>
#include <lockstep/base/nearest.h>
#include <lockstep/runner/program_arguments.h>
#include <lockstep/train/configuration/read_config.h>
#include <lockstep/train/keys/config_keys.h>
#include <lockstep/train/keys/part_kinds.h>
#include <lockstep/world/world.h>

#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <cstdlib>

namespace lockstep::runner {

namespace {

/// "train.epochs (integer, from 1, default 3)", and its meaning on a separate line.
std::string keys_line(const ConfigKey& key) {
  std::string facts = key.type;
  if (!key.allowed.empty()) facts += ", " + key.allowed;
  facts += key.default_value == "required" ? ", required" : fmt::format(", default {}", key.default_value);
  return fmt::format("{} ({})\n      {}", key.path, facts, key.doc);
}

std::string list_help() {
  std::vector<std::string> kinds;
  train::for_each_kind([&](std::string_view plural, std::string_view, auto) { kinds.emplace_back(plural); });
  return fmt::format("List what a key can name, with the plugins of --config:\n{}", fmt::join(kinds, ", "));
}

}  // namespace

std::string launcher_choices() {
  constexpr std::size_t kLongestLine = 80;
  std::string choices;
  std::size_t begin = 0;  // of the line
  for (const auto& name : launcher_names()) {
    if (!choices.empty()) choices += ",";
    if (choices.size() + name.size() - begin > kLongestLine) {
      choices += "\n";
      begin = choices.size();
    } else if (!choices.empty()) {
      choices += " ";
    }
    choices += name;
  }
  return choices;
}

void add_program_options(CLI::App& app, ProgramArguments& arguments) {
  app.add_option("--config,-c", arguments.config, "The YAML file that describes the run")->type_name("FILE");
  // CLI11 2.4 refuses a name with '='.
  app.add_option("KEYS", arguments.overrides, "Replaces a key of the file, e.g. train.epochs=3 optimizer.lr=0.1")
      ->type_name("KEY=VALUE");
  app.add_option("--launcher", arguments.launcher, "Its launcher:\n" + launcher_choices())
      ->type_name("NAME")
      ->capture_default_str();
  app.add_option("--init-method,--init_method", arguments.init.init_method,
                 "The rendezvous of the ranks: tcp://HOST:PORT of node 0, file:///PATH or env://")
      ->type_name("URL");
  app.add_option("--rank", arguments.init.rank, "The number of this node (not of a rank), with --world_size")
      ->type_name("N");
  app.add_option("--world-size,--world_size", arguments.init.world_size, "How many nodes there are")->type_name("N");
  app.add_flag("--dry-run,--dry_run", arguments.dry_run,
               "Only print the whole configuration, the model and, with parallel.mode auto, the plan");
  app.add_flag_callback(
      "--verbose,-v",
      [] { ::setenv("LOCKSTEP_VERBOSE", "1", /*overwrite=*/1); },  // also for ranks that this process starts
      "Also print the variables that gave the rank; the same as LOCKSTEP_VERBOSE=1");
  app.add_option("--list", arguments.list, list_help())->type_name("KIND");
  add_foreign_options(app, arguments.foreign);
  app.add_flag("--help-keys", arguments.help_keys, "List every key of the configuration with type, range and default");
}

std::vector<std::string> all_overrides(const ProgramArguments& arguments) {
  return with_foreign(arguments.overrides, arguments.foreign);
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
  train::for_each_kind([&](std::string_view, std::string_view section, auto kind) {
    const bool is_own = config.model.is_own && (section == "model" || section == "task" || section == "loss");
    if (is_own || (config.data.is_own && section == "data")) return;
    const auto path = fmt::format("{}.", section);
    for (auto part : train::parts_or_shipped(config.model.parts).*kind) {
      const auto part_keys = list_fields([&](ConfigFields& fields) { part.options.visit(fields); });
      if (part_keys.empty()) continue;
      fmt::print("\n{} ({}): {}\n", section, part.name, part.doc);
      const auto before = train::is_list_item(section) ? "" : path;
      for (const ConfigKey& key : part_keys) fmt::print("  {}{}\n", before, keys_line(key));
    }
  });
}

void print_parts(const train::Parts& parts, const std::string& kind) {
  std::vector<std::string> kinds;
  bool found = false;
  train::for_each_kind([&](std::string_view plural, std::string_view, auto member) {
    const auto& list = parts.*member;
    kinds.emplace_back(plural);
    if (plural != kind) return;
    found = true;
    for (const auto& name : train::names_of(list)) fmt::print("{:<20} {}\n", name, train::find_part(list, name)->doc);
  });
  if (found) return;
  fail(ErrorKind::invalid_argument, "train", "--list takes {}, not '{}'{}", fmt::join(kinds, ", "), kind,
       did_you_mean(kind, kinds));
}

bool answers_about_parts(const ProgramArguments& arguments, train::RunConfig defaults) {
  if (arguments.list.empty() && !arguments.help_keys) return false;
  if (!arguments.config.empty()) {
    train::set_parts(defaults, train::load_parts(arguments.config, all_overrides(arguments), defaults.model.parts));
  }
  if (arguments.list.empty()) {
    print_keys(defaults);
  } else {
    print_parts(train::parts_or_shipped(defaults.model.parts), arguments.list);
  }
  return true;
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
  const auto overrides = all_overrides(arguments);
  program.insert(program.end(), overrides.begin(), overrides.end());
  return program;
}

}  // namespace lockstep::runner
