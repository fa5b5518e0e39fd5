// The choice between model.safetensors and the newest checkpoint of a run folder, by the time of writing; classes.txt;
// table.json, and a configuration whose table uses its statistics.
#include <lockstep/base/error.h>
#include <lockstep/base/files.h>
#include <lockstep/base/log.h>
#include <lockstep/base/text.h>
#include <lockstep/data/format.h>
#include <lockstep/samples/table.h>
#include <lockstep/state/checkpoint_folder.h>
#include <lockstep/state/sharded/index.h>
#include <lockstep/train/checkpoint/run_folder.h>
#include <lockstep/train/keys/config_keys.h>
#include <lockstep/train/keys/part_kinds.h>
#include <lockstep/train/resources/work_dir.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <optional>
#include <sstream>
#include <system_error>
#include <utility>
#include <vector>

namespace lockstep::train {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFinalWeights = "model.safetensors";
constexpr const char* kCheckpointsFolder = "checkpoints";

std::optional<fs::path> newest_checkpoint(const fs::path& folder) {
  const auto all = list_checkpoints(folder / kCheckpointsFolder);
  return all.empty() ? std::nullopt : std::optional(all.front().path);
}

/// For a checkpoint in parts, the time of its completion.
fs::file_time_type written_at(const fs::path& path) {
  std::error_code unknown;
  return fs::last_write_time(fs::is_directory(path, unknown) ? path / kIndexName : path, unknown);
}

constexpr const char* kTableData = "csv";

const samples::TableOptions& table_options(const ResolvedRun& config) {
  return config.data.options.as<samples::TableOptions>();
}

ResolvedRun with_options(ResolvedRun config, samples::TableOptions options) {
  config.data.options = PartOptions::of(std::move(options), kTableData);
  return config;
}

/// The file of that name in the nearest of these folders; empty if there is none, or if `weights` is empty.
fs::path find_file_of_run(const fs::path& weights, const char* name) {
  if (weights.empty()) return {};
  for (const auto& folder : folders_of_run_around(weights)) {
    std::error_code unknown;
    if (fs::is_regular_file(folder / name, unknown)) return folder / name;
  }
  return {};
}

}  // namespace

bool is_run_folder(const fs::path& path) {
  std::error_code unknown;
  return fs::is_directory(path, unknown) && !fs::exists(path / kIndexName, unknown) &&
         (fs::is_directory(path / kCheckpointsFolder, unknown) || fs::exists(path / kFinalWeights, unknown));
}

std::vector<fs::path> folders_of_run_around(const fs::path& weights) {
  std::error_code unknown;
  auto folder = fs::absolute(weights, unknown).lexically_normal();
  if (folder.filename().empty()) folder = folder.parent_path();  // "RUN/best/"
  return {folder, folder.parent_path(), folder.parent_path().parent_path()};
}

fs::path weights_of_run(const fs::path& path) {
  if (!is_run_folder(path)) return path;
  std::error_code unknown;
  const auto weights = path / kFinalWeights;
  const auto newest = newest_checkpoint(path);
  if (!newest) return weights;
  return fs::exists(weights, unknown) && written_at(weights) >= written_at(*newest) ? weights : *newest;
}

fs::path checkpoint_of_run(const fs::path& path) {
  if (!is_run_folder(path)) return path;
  return newest_checkpoint(path).value_or(path / kFinalWeights);
}

std::vector<std::string> class_names(const ResolvedRun& config, const Program& program) {
  const auto formats = data::dataset_formats();
  const auto format = std::ranges::find(formats, config.data.name, &data::DatasetFormat::name);
  if (!config.has_own_data && format != formats.end()) {
    std::vector<std::string> names;
    std::istringstream words{std::string(format->class_names)};
    for (std::string word; words >> word;) names.push_back(word);
    return names;
  }
  try {
    const auto training = program.data ? program.data(data::Split::train) : nullptr;
    return training ? training->classes() : std::vector<std::string>();
  } catch (const Error& error) {
    log_warning(
        "predictions have no names of classes, because the training data cannot be read: {}; --classes FILE gives "
        "names",
        error.what());
    return {};
  }
}

std::string classes_text(const std::vector<std::string>& names) {
  return nlohmann::json(names).dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::vector<std::string> classes_of_run(const std::filesystem::path& weights) {
  const auto file = find_file_of_run(weights, kClassesFile);
  if (file.empty()) return {};
  try {
    std::ifstream in(file);
    return nlohmann::json::parse(in).get<std::vector<std::string>>();
  } catch (const nlohmann::json::exception&) {
    fail(ErrorKind::data, "classes", "{} is damaged: it is no list of names; remove it if the data has its classes",
         file.string());
  }
}

void require_same_classes(const std::vector<std::string>& learned, const std::vector<std::string>& given) {
  // Names of files may be invalid UTF-8, which the file of a run cannot store.
  const auto found = nlohmann::json::parse(classes_text(given)).get<std::vector<std::string>>();
  if (learned.empty() || found.empty() || learned == found) return;
  const auto at = static_cast<std::size_t>(std::ranges::mismatch(learned, found).in1 - learned.begin());
  const auto shown = [at](const std::vector<std::string>& names) {
    return at < names.size() ? fmt::format("'{}'", cut_text(names[at])) : std::string("missing");
  };
  fail(ErrorKind::data, "classes",
       "the weights have learned {} classes, and the data has {}; class {} was {} and is {}. Give the data the names "
       "that it had (folders of classes, words of a table), or their order by data.classes; or train again in another "
       "folder",
       learned.size(), found.size(), at, shown(learned), shown(found));
}

bool has_table(const ResolvedRun& config) {
  return !config.has_own_data && config.data.name == kTableData && config.data.options.part() == kTableData;
}

std::string table_of_run(const std::filesystem::path& weights) {
  const auto file = find_file_of_run(weights, kTableFile);
  if (file.empty()) return {};
  auto text = read_file(file);
  if (!text) fail(ErrorKind::io, "data", "cannot read {}", file.string());
  samples::table_statistics_in(*text, file.string());  // its errors name the file
  return *text;
}

std::string table_of_training(const ResolvedRun& config) {
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

ResolvedRun with_table(ResolvedRun config, const std::string& table) {
  if (table.empty() || !has_table(config)) return config;
  auto options = table_options(config);
  options.statistics =
      std::make_shared<const samples::TableStatistics>(samples::table_statistics_in(table, kTableFile));
  return with_options(std::move(config), std::move(options));
}

bool reads_as_learned(const ResolvedRun& config) { return has_table(config) && table_options(config).statistics; }

ResolvedRun without_targets(ResolvedRun config) {
  if (!has_table(config)) return config;
  auto options = table_options(config);
  options.needs_targets = false;
  return with_options(std::move(config), std::move(options));
}

Program with_data_of(Program program, const ResolvedRun& config) {
  if (!program.is_configured || !has_table(config)) return program;
  auto again = configured_program(config);
  program.data = std::move(again.data);
  program.example = std::move(again.example);
  program.describe_data = std::move(again.describe_data);
  program.model = std::move(again.model);
  return program;
}

std::optional<std::string> advice_on_targets(const ResolvedRun& config, const std::optional<Evaluation>& evaluation) {
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
