// The making of a ResolvedRun: values from a file, a text or a program, with the parts that they name.
#include <lockstep/base/config_reader.h>
#include <lockstep/base/error.h>
#include <lockstep/train/configuration/read_config.h>
#include <lockstep/train/keys/config_keys.h>
#include <lockstep/train/keys/foreign_tables.h>
#include <lockstep/train/keys/key_places.h>
#include <lockstep/train/keys/part_kinds.h>
#include <lockstep/train/modes/wrapper.h>
#include <lockstep/train/optimizer.h>
#include <lockstep/train/plugins/load.h>
#include <lockstep/train/program.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <fstream>
#include <utility>

namespace lockstep::train {
namespace {

constexpr std::string_view kOwnProgram = "# of a run of the program ";

/// The section belongs to a program with its own model, whose runs write such files.
void refuse_own_section(const ConfigSource& source, const std::filesystem::path& path) {
  const auto* section = source.root.find("program");
  if (section == nullptr) return;
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  const bool named = line.starts_with(kOwnProgram);
  const auto program = named ? line.substr(kOwnProgram.size()) : std::string("PROGRAM");
  throw Error(
      ErrorKind::config, "config",
      fmt::format("this is the configuration of a program with a model of its own{}: use that in place of lockstep; "
                  "if its main function is train_main(), '{} eval --weights DIR' with the folder of a run",
                  named ? ", " + program : "", program),
      section->position);
}

}  // namespace

ResolvedRun::ResolvedRun() : parts(shared_shipped_parts()) {}

ResolvedRun::ResolvedRun(RunConfig values, std::shared_ptr<const Parts> known)
    : RunConfig(std::move(values)), parts(known ? std::move(known) : shared_shipped_parts()) {
  require_makers(*parts);
  parts = with_plugins(parts, RunConfig::plugins);
}

std::string own_program_line(const std::string& program) { return fmt::format("{}{}\n", kOwnProgram, program); }

std::shared_ptr<const Parts> load_parts(const std::filesystem::path& path, std::span<const std::string> overrides,
                                        std::shared_ptr<const Parts> parts) {
  auto source = load_config(path, overrides);
  return with_plugins(std::move(parts), source);
}

ResolvedRun read_run_config(const ConfigSource& source, ResolvedRun run) {
  const auto given = with_own_names(source.root);
  run.without_effect.clear();
  read_fields(given, "", refused_words(), [&](ConfigFields& fields) { describe(fields, run); });
  try {
    apply_wrapper(run);
    run.origins = fmt::format("{}{}", describe_origins(source), fmt::join(run.without_effect, ""));
    auto& data = run.data;
    if (!data.batch_size && !data.global_batch_size) data.batch_size = kDefaultBatchSize;  // so that it is shown
    lockstep::expand_home([&](ConfigFields& fields) { describe(fields, run); });
    check_run_config(run);
  } catch (const Error& error) {
    throw with_place(error, given);
  }
  run.given = given;
  if (run.has_own_model) run.program.looked_at = std::make_shared<bool>(false);
  return run;
}

ResolvedRun load_run_config(const std::filesystem::path& path, std::span<const std::string> overrides) {
  return load_run_config(path, overrides, nullptr);
}

ResolvedRun load_run_config(const std::filesystem::path& path, std::span<const std::string> overrides,
                            std::shared_ptr<const Parts> parts) {
  auto source = load_config(path, overrides);
  refuse_own_section(source, path);
  return read_run_config(source, ResolvedRun({}, with_plugins(std::move(parts), source)));
}

ResolvedRun load_program_config(RunConfig defaults, const std::optional<std::filesystem::path>& path,
                                std::span<const std::string> overrides) {
  auto source = path ? load_config(*path, overrides) : parse_config("{}", "the program", overrides);
  if (source.root.find("plugins") != nullptr) defaults.plugins.clear();
  ResolvedRun run(std::move(defaults), with_plugins(nullptr, source));
  run.has_own_model = run.has_own_data = true;
  if (run.model.name.empty()) run.model.name = "own";
  if (run.data.name.empty()) run.data.name = "own";
  return read_run_config(source, std::move(run));
}

ResolvedRun parse_run_config(const std::string& yaml, const Program& program, std::span<const std::string> overrides) {
  auto source = parse_config(yaml, "the program", overrides);
  return read_run_config(source, resolved_for(program, ResolvedRun({}, with_plugins(nullptr, source))));
}

ResolvedRun resolved_for(const Program& program, ResolvedRun run) {
  if (program.model && !program.is_configured) run.has_own_model = true;
  if (program.data && !program.is_configured) run.has_own_data = true;
  if (run.has_own_model && run.model.name.empty()) run.model.name = program.name;
  if (run.has_own_data && run.data.name.empty()) run.data.name = program.name;
  if (program.optimizer) set_own_optimizer(run, program.optimizer);
  apply_wrapper(run);  // again, because a program may have chosen it after the configuration was read
  return run;
}

}  // namespace lockstep::train
