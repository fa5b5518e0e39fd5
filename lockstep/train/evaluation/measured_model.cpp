// The setup of a model for evaluation and prediction: checked configuration, plan, device, weights, parallel run.
#include <lockstep/train/evaluation/measured_model.h>

#include <lockstep/base/error.h>
#include <lockstep/base/log.h>
#include <lockstep/comm/texts.h>
#include <lockstep/train/checkpoint/class_names.h>
#include <lockstep/train/checkpoint/learned_table.h>
#include <lockstep/train/keys/config_keys.h>
#include <lockstep/train/modes/run_model.h>
#include <lockstep/train/resources/device.h>
#include <lockstep/train/resources/runtime.h>
#include <lockstep/train/resources/work_dir.h>
#include <lockstep/train/served/served_tables.h>

#include <fmt/format.h>

#include <cstdio>
#include <string_view>
#include <utility>

namespace lockstep::train {
namespace {

RunConfig checked(RunConfig config, bool has_weights) {
  if (is_served_mode(config.parallel)) {
    if (!has_weights && !config.model.weights) {
      fail(ErrorKind::config, "model.weights",
           "is not given, and the tables of a run with parameter servers ended with it; give its model.safetensors "
           "(lockstep eval --weights FILE)");
    }
    config.parallel.mode = "data_parallel";  // without servers
  }
  // Nothing is trained, so no optimizer or length is required.
  if (!config.train.epochs && !config.train.steps) config.train.epochs = 1;
  check_run_config(config);
  return config;
}

/// Adds the statistics of the run that the weights belong to, if the data is a table. Rank 0 reads them.
RunConfig as_learned(RunConfig config, const Group& group, bool has_weights) {
  if (!has_table(config)) return config;
  const auto& resume = config.checkpoint.resume;
  const bool is_named = resume != "auto" && resume != "none";
  const auto place = has_weights ? (is_named ? resume : config.system.work_dir) : config.model.weights.value_or("");
  return with_table(std::move(config), share_text(group.rank() == 0 ? table_of_run(place) : "", group));
}

}  // namespace

MeasuredModel::MeasuredModel(const RunConfig& given, const Program& parts, const Group& group,
                             const NamedTensors* weights)
    : config_(as_learned(checked(config_of(parts, given), weights != nullptr), group, weights != nullptr)),
      program_(complete_program(with_data_of(parts, config_), config_)),
      console_(has_console(config_, group.world()), ProgressStyle::off) {
  apply_runtime(config_.system);
  config_ = planned(config_, program_, group, console_);
  share_ = data_share(config_, group);
  device_ = choose_device(config_, group);
  const auto options = forward_options(config_, device_);
  model_ = make_model(config_, program_, options.device);
  const auto remark_on = [&](std::string_view line) {
    write_log(LogLevel::info, line);
    // Standard output is for results, which other programs read.
    if (has_console(config_, group.world())) fmt::print(stderr, "{}\n", line);
  };
  if (weights != nullptr) {
    load_module_state(*model_.module, *weights);
  } else if (config_.model.weights) {
    for (const auto& remark : start_from_weights(model_, config_.model, WeightsFor::measuring)) remark_on(remark);
    if (has_table(config_) && !reads_as_learned(config_)) {
      remark_on(
          fmt::format("the folder of the weights has no {}: means, deviations and words are those of data.train as it "
                      "is now",
                      kTableFile));
    }
  }
  run_ = make_parallel_run(config_, model_, group, options);
}

std::optional<RankData> MeasuredModel::data(std::shared_ptr<const samples::Dataset> dataset) const {
  if (!dataset) {
    auto data = load_eval_data(config_, program_, share_.index, share_.count);
    // Weights given as tensors come from a model in this process.
    if (data && config_.model.weights) {
      require_same_classes(classes_of_run(*config_.model.weights), data->dataset->classes());
    }
    return data;
  }
  auto program = program_;
  program.data = DataSource(nullptr, std::move(dataset));
  return load_eval_data(config_, program, share_.index, share_.count);
}

}  // namespace lockstep::train
