// table.json in the folder of a run: its reader, and a configuration whose table uses its statistics.
#include <lockstep/train/checkpoint/learned_table.h>

#include <lockstep/base/error.h>
#include <lockstep/base/file_text.h>
#include <lockstep/samples/table.h>
#include <lockstep/train/checkpoint/run_folder.h>
#include <lockstep/train/keys/config_keys.h>
#include <lockstep/train/keys/part_kinds.h>
#include <lockstep/train/resources/work_dir.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace lockstep::train {
namespace {

constexpr const char* kTableData = "csv";

const samples::TableOptions& table_options(const RunConfig& config) {
  return config.data.options.as<samples::TableOptions>();
}

RunConfig with_options(RunConfig config, samples::TableOptions options) {
  config.data.options = PartOptions::of(std::move(options));
  return config;
}

}  // namespace

bool has_table(const RunConfig& config) {
  return !config.data.is_own && config.data.name == kTableData && config.data.options_of == kTableData;
}

std::string table_of_run(const std::filesystem::path& weights) {
  const auto file = find_file_of_run(weights, kTableFile);
  if (file.empty()) return {};
  auto text = read_file(file);
  if (!text) fail(ErrorKind::io, "data", "cannot read {}", file.string());
  samples::table_statistics_in(*text, file.string());  // its errors name the file
  return *text;
}

std::string table_of_training(const RunConfig& config) {
  if (!has_table(config)) return {};
  try {
    return samples::text_of(samples::learn_table(table_options(config)));
  } catch (const Error&) {
    return {};
  }
}

std::string difference_of_tables(const std::string& then, const std::string& now) {
  return samples::difference_between(samples::table_statistics_in(then, kTableFile),
                                     samples::table_statistics_in(now, "data.train"));
}

RunConfig with_table(RunConfig config, const std::string& table) {
  if (table.empty() || !has_table(config)) return config;
  auto options = table_options(config);
  options.statistics =
      std::make_shared<const samples::TableStatistics>(samples::table_statistics_in(table, kTableFile));
  return with_options(std::move(config), std::move(options));
}

bool reads_as_learned(const RunConfig& config) { return has_table(config) && table_options(config).statistics; }

RunConfig without_targets(RunConfig config) {
  if (!has_table(config)) return config;
  auto options = table_options(config);
  options.needs_targets = false;
  return with_options(std::move(config), std::move(options));
}

Program with_data_of(Program program, const RunConfig& config) {
  if (!program.is_configured || !has_table(config)) return program;
  auto again = configured_program(config);
  program.data = std::move(again.data);
  program.example = std::move(again.example);
  program.describe_data = std::move(again.describe_data);
  program.model = std::move(again.model);
  return program;
}

std::optional<std::string> advice_on_targets(const RunConfig& config, const std::optional<Evaluation>& evaluation) {
  constexpr double kLarge = 10, kFarBelow = -0.5;
  if (!evaluation || !has_table(config)) return std::nullopt;
  const auto& options = table_options(config);
  if (options.standardize_targets || !options.statistics || options.statistics->targets.empty()) return std::nullopt;
  double largest = 0, variance = 0;
  for (const auto& [column, mean, deviation] : options.statistics->targets) {
    largest = std::max({largest, std::abs(mean), deviation});
    variance += deviation * deviation / static_cast<double>(options.statistics->targets.size());
  }
  if (largest < kLarge) return std::nullopt;
  const auto& metrics = evaluation->metrics;
  std::optional<double> r2;
  if (const auto found = metrics.find("r2"); found != metrics.end()) {
    r2 = found->second;
  } else if (const auto rmse = metrics.find("rmse"); rmse != metrics.end()) {
    r2 = 1 - rmse->second * rmse->second / variance;  // relative to the training file's deviation
  }
  if (!r2 || !(*r2 < kFarBelow)) return std::nullopt;
  return fmt::format(
      "the predictions are worse than the mean of the targets would be (r2 {:.3g}), and these are as large as {:.3g}: "
      "data.standardize_targets=true lets the model learn them in units of their deviation (in another "
      "system.work_dir)",
      *r2, largest);
}

}  // namespace lockstep::train
