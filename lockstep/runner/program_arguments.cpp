// Options of a training program (--config, KEY=VALUE, --launcher, ...), and the lists of its keys and parts; flags of
// MMEngine's and MindOCR's scripts, translated into overrides KEY=VALUE; misplaced flags are refused.
#include <lockstep/base/config.h>
#include <lockstep/base/error.h>
#include <lockstep/base/nearest.h>
#include <lockstep/runner/program_arguments.h>
#include <lockstep/train/configuration/read_config.h>
#include <lockstep/train/keys/config_keys.h>
#include <lockstep/train/keys/foreign_tables.h>
#include <lockstep/train/keys/part_kinds.h>
#include <lockstep/world/world.h>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace lockstep::runner {
namespace {

constexpr const char* kGroup = "Flags of MMEngine and MindOCR (docs/coming_from.md)";

void warn(const std::string& words) {
  fmt::print(stderr, "warning: unknown and ignored (--ignore-unknown): {}\n", words);
}

/// The Lockstep names of the flags among `words`, as the end of a message: "; here it is called 'system.seed'
/// (--seed)".
std::string meant_by(const std::vector<std::string>& words) {
  for (const auto& word : words) {
    if (!word.starts_with("--")) continue;
    const auto flag = word.substr(0, word.find('='));
    const auto meant = here_instead_of(flag.substr(2), {}, train::refused_words());
    if (!meant.empty()) return fmt::format("{} ({})", meant, flag);
  }
  return "";
}

/// Errors for keys with dashes, and for launcher flags after the program that it starts.
void refuse_misplaced(const std::string& command, const std::string& word) {
  if (!word.starts_with("--")) return;
  auto name = word.substr(2, word.find('=') - 2);
  if (name.find('.') != std::string::npos) {
    fail(ErrorKind::invalid_argument, command, "{} is a key of the configuration, and keys have no dashes; write {}{}",
         word, word.substr(2), word.find('=') == std::string::npos ? "=VALUE" : "");
  }
  constexpr std::array<std::string_view, 9> kLaunchers{"nproc-per-node", "nnodes",      "node-rank",
                                                       "rdzv-backend",   "rdzv-id",     "rdzv-endpoint",
                                                       "master-addr",    "master-port", "max-restarts"};
  std::ranges::replace(name, '_', '-');
  if (std::ranges::find(kLaunchers, name) == kLaunchers.end()) return;
  fail(ErrorKind::invalid_argument, command,
       "{} is a flag of the launcher, and belongs before the program: lockstep run {} ... lockstep train ...", word,
       word);
}

/// A shell splits `train.epochs = 3` into three arguments.
void refuse_blanks(const std::vector<std::string>& words) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (!words[i].starts_with('=')) continue;
    const auto key = i > 0 ? words[i - 1] : std::string("KEY");
    const auto value = words[i].size() > 1 ? words[i].substr(1) : i + 1 < words.size() ? words[i + 1] : "VALUE";
    fail(ErrorKind::invalid_argument, "train", "there are blanks around the = of {0}; write {0}={1}", key, value);
  }
}

bool is_key_value(const std::string& word) { return word.find('=') != std::string::npos; }

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

/// Adds the flags; `arguments` outlives `app`, which then throws CLI::ExtrasError for unknown arguments, unless
/// --ignore-unknown is given.
void add_foreign_options(CLI::App& app, ForeignArguments& arguments) {
  app.add_option("--cfg-options,--opt,-o", arguments.options, "KEY=VALUE, as above")
      ->type_name("KEY=VALUE")
      ->group(kGroup);
  app.add_option("--work-dir,--work_dir", arguments.work_dir, "The same as system.work_dir=DIR")
      ->type_name("DIR")
      ->group(kGroup);
  app.add_option("--resume", arguments.resume, "Continues from the newest checkpoint, or from checkpoint.resume=FILE")
      ->type_name("FILE")
      ->expected(0, 1)
      ->group(kGroup);
  app.add_flag("--auto-scale-lr,--auto_scale_lr", arguments.scales_lr, "The same as auto_scale_lr.enable=true")
      ->group(kGroup);
  app.add_option("--local-rank,--local_rank", arguments.local_rank, "Ignored: a launcher's variables set it")
      ->type_name("N")
      ->group(kGroup);
  app.add_flag("--ignore-unknown,--ignore_unknown", arguments.ignores_unknown,
               "Ignores arguments that a platform adds (--data_url=...), with a warning")
      ->group(kGroup);
  app.allow_extras();
  app.parse_complete_callback([&app, &arguments] {
    arguments.resumes = app.count("--resume") > 0;
    const auto unknown = app.remaining();
    if (unknown.empty()) return;
    if (!arguments.ignores_unknown) {
      for (const auto& word : unknown) refuse_misplaced(app.get_name(), word);
      const CLI::ExtrasError error(app.get_name(), unknown);
      throw CLI::ExtrasError(error.what() + meant_by(unknown), CLI::ExitCodes::ExtrasError);
    }
    warn(fmt::format("{}", fmt::join(unknown, " ")));
  });
}

/// `overrides`, followed by the flags as KEY=VALUE. With --ignore-unknown, arguments that are not KEY=VALUE are left
/// out, with a warning on stderr.
std::vector<std::string> with_foreign(const std::vector<std::string>& overrides, const ForeignArguments& arguments) {
  refuse_blanks(overrides);
  std::vector<std::string> all;
  for (const auto& word : overrides) {
    if (!arguments.ignores_unknown || is_key_value(word)) {
      all.push_back(word);
    } else {
      warn(word);
    }
  }
  all.insert(all.end(), arguments.options.begin(), arguments.options.end());
  if (!arguments.work_dir.empty()) all.push_back("system.work_dir=" + arguments.work_dir);
  if (arguments.scales_lr) all.push_back("auto_scale_lr.enable=true");
  if (arguments.resumes) {
    const auto file = arguments.resume.empty() ? std::string() : arguments.resume.front();
    if (is_key_value(file)) all.push_back(file);
    all.push_back("checkpoint.resume=" + (file.empty() || is_key_value(file) ? "auto" : file));
  }
  return all;
}

/// Every key that this configuration can have, with type, range and default.
void print_keys(const train::ResolvedRun& config) {
  const auto keys = list_fields([copy = config](ConfigFields& fields) mutable { describe(fields, copy); });
  for (const ConfigKey& key : keys) {
    if (key.type.starts_with("section")) {
      fmt::print("\n{}: {}\n", key.path, key.doc);
      continue;
    }
    fmt::print("  {}\n", keys_line(key));
  }
  train::for_each_kind([&](std::string_view, std::string_view section, auto kind) {
    const bool is_own = config.has_own_model && (section == "model" || section == "task" || section == "loss");
    if (is_own || (config.has_own_data && section == "data")) return;
    const auto path = fmt::format("{}.", section);
    for (auto part : (*config.parts).*kind) {
      const auto part_keys = list_fields([&](ConfigFields& fields) { part.options.visit(fields); });
      if (part_keys.empty()) continue;
      fmt::print("\n{} ({}): {}\n", section, part.name, part.doc);
      const auto before = train::is_list_item(section) ? "" : path;
      for (const ConfigKey& key : part_keys) fmt::print("  {}{}\n", before, keys_line(key));
    }
  });
}

/// The names of `kind`'s parts, such as models, with one line about each. Error(invalid_argument) for another kind.
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

bool answers_about_parts(const ProgramArguments& arguments, train::ResolvedRun defaults) {
  if (arguments.list.empty() && !arguments.help_keys) return false;
  if (!arguments.config.empty()) {
    defaults.parts = train::load_parts(arguments.config, all_overrides(arguments), defaults.parts);
  }
  if (arguments.list.empty()) {
    print_keys(defaults);
  } else {
    print_parts(*defaults.parts, arguments.list);
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
