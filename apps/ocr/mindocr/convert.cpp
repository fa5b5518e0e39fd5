// The converter of MindOCR's training keys: system, schedule, optimizer, loss scaler, callbacks and loaders.
#include <apps/ocr/mindocr/convert.h>

#include <apps/ocr/mindocr/given_keys.h>
#include <apps/ocr/mindocr/model_keys.h>
#include <lockstep/base/error.h>
#include <lockstep/base/text.h>

#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <string_view>
#include <utility>

namespace lockstep::ocr {
namespace {

bool is_true(std::string_view text) { return text == "True" || text == "true"; }
bool is_false(std::string_view text) { return text == "False" || text == "false"; }

void convert_system(Conversion& c) {
  const auto distribute = c.given.take_text("system.distribute");
  if (!distribute.empty()) {
    set_key(c.ours, "parallel.mode", text_node(is_true(distribute) ? "data_parallel" : "stand_alone"));
  }
  carry(c, "system.seed", "system.seed");
  carry(c, "train.ckpt_save_dir", "system.work_dir");
  carry(c, "system.log_interval", "callbacks.loss_every");
  carry(c, "system.ckpt_max_keep", "checkpoint.keep");
  const auto level = c.given.take_text("system.amp_level");
  c.half_precision = !level.empty() && level != "O0";
  if (!level.empty()) set_key(c.ours, "model.autocast", text_node(level));
  const auto interval = c.given.take_text("system.val_interval");
  if (is_false(c.given.take_text("system.val_while_train"))) {
    set_key(c.ours, "train.eval_every", text_node("0"));
  } else if (!interval.empty()) {
    set_key(c.ours, "train.eval_every", text_node(interval));
  }
  // Keys of devices, of the work of each device, and of evaluation's precision, which equals that of training here.
  c.given.pass_over("system", {"mode", "device_id", "amp_level_infer", "refine_batch_size", "log_level",
                               "drop_overflow_update", "ckpt_save_policy"});
  c.given.take_if("system.val_start_epoch", {"1"});
}

/// In Lockstep the rate decays over all epochs after the warm-up.
void remark_decay_epochs(Conversion& c) {
  const auto decay = c.given.take_text("scheduler.decay_epochs");
  const auto value_of = [](const ConfigNode* section, const char* key) {
    const auto* node = section == nullptr ? nullptr : section->find(key);
    return node == nullptr ? std::nullopt : parse_number(node->scalar);
  };
  const auto epochs = value_of(c.ours.find("train"), "epochs"),
             warm = value_of(c.ours.find("scheduler"), "warmup_epochs");
  const auto given = parse_number(decay);
  if (given && epochs && *given != *epochs - warm.value_or(0)) {
    c.lost.push_back(
        fmt::format("scheduler.decay_epochs ({}; here the rate falls over all {} epochs behind the warm-up)", decay,
                    *epochs - warm.value_or(0)));
  }
}

void convert_schedule(Conversion& c) {
  const auto name = c.given.take_text("scheduler.scheduler");
  carry(c, "scheduler.lr", "optimizer.lr");
  carry(c, "scheduler.num_epochs", "train.epochs");
  carry(c, "scheduler.warmup_epochs", "scheduler.warmup_epochs");
  carry(c, "scheduler.warmup_factor", "scheduler.warmup_factor");
  const auto decay = [&](const char* ours) { carry(c, "scheduler.decay_rate", ours); };
  if (name == "constant") {
    set_key(c.ours, "scheduler.name", text_node("constant"));
  } else if (name == "cosine_decay" || name == "warmup_cosine_decay") {
    set_key(c.ours, "scheduler.name", text_node("cosine"));
    carry(c, "scheduler.min_lr", "scheduler.min_lr");
    remark_decay_epochs(c);
  } else if (name == "polynomial_decay") {
    set_key(c.ours, "scheduler.name", text_node("polynomial"));
    decay("scheduler.power");
    carry(c, "scheduler.min_lr", "scheduler.min_lr");
  } else if (name == "step_decay") {
    set_key(c.ours, "scheduler.name", text_node("step"));
    carry(c, "scheduler.decay_epochs", "scheduler.step_size");
    decay("scheduler.gamma");
  } else if (name == "multi_step_decay") {
    set_key(c.ours, "scheduler.name", text_node("multi_step"));
    carry(c, "scheduler.milestones", "scheduler.milestones");
    decay("scheduler.gamma");
  } else if (!name.empty()) {
    c.lost.push_back(fmt::format("scheduler.scheduler ({})", name));
  }
}

void convert_betas(Conversion& c) {
  auto first = c.given.take("optimizer.beta1"), second = c.given.take("optimizer.beta2");
  if (!first && !second) return;
  set_key(c.ours, "optimizer.betas",
          list_node({first ? std::move(*first) : text_node("0.9"), second ? std::move(*second) : text_node("0.999")}));
}

/// Whether the optimizer's list of parameters without decay is that of norms and biases.
bool takes_norms_and_biases(Conversion& c) {
  const bool groups = c.given.take_text("optimizer.grouping_strategy") == "filter_norm_and_bias";
  const auto list = c.given.take("optimizer.no_weight_decay_params");
  if (!list) return groups;
  std::vector<std::string> names;
  for (const auto& item : list->items) names.push_back(item.scalar);
  std::ranges::sort(names);
  if (names == std::vector<std::string>{"beta", "bias", "gamma"}) return true;
  if (!names.empty()) c.lost.push_back(fmt::format("optimizer.no_weight_decay_params ({})", fmt::join(names, ", ")));
  return groups;
}

void convert_optimizer(Conversion& c) {
  auto name = c.given.take_text("optimizer.opt");
  std::ranges::transform(name, name.begin(), [](char letter) { return static_cast<char>(std::tolower(letter)); });
  if (name == "sgd") name = "momentum";
  const bool known = name == "momentum" || name == "adam" || name == "adamw" || name == "rmsprop" || name == "lamb" ||
                     name == "adagrad";
  if (known) {
    set_key(c.ours, "optimizer.name", text_node(name));
  } else if (!name.empty()) {
    c.lost.push_back(fmt::format("optimizer.opt ({})", name));
    c.notes.push_back("give optimizer.name: Lockstep has no optimizer of that name");
  }
  if (name == "momentum") {
    carry(c, "optimizer.momentum", "optimizer.momentum");
  } else if (name.starts_with("adam")) {
    c.given.pass_over("optimizer", {"momentum"});  // MindOCR's Adam optimizers do not use it
  }
  convert_betas(c);
  carry(c, "optimizer.weight_decay", "optimizer.weight_decay");
  const bool filters = is_true(c.given.take_text("optimizer.filter_bias_and_bn"));
  if (takes_norms_and_biases(c) || filters) {
    set_key(c.ours, "optimizer.no_decay", list_node({text_node("norms"), text_node("biases")}));
  }
  c.given.take_if("optimizer.nesterov", {"False"});
  const auto type = c.given.take_text("loss_scaler.type");
  for (const auto* key : {"loss_scale", "scale_factor", "scale_window"}) {
    const auto path = fmt::format("loss_scaler.{}", key);
    if (c.half_precision && !type.empty()) {
      carry(c, path, path);
    }
  }
  if (c.half_precision) {
    if (!type.empty()) set_key(c.ours, "loss_scaler.type", text_node(type));
  } else if (!type.empty()) {
    c.given.take("loss_scaler");
    c.passed_over.emplace_back("loss_scaler (nothing is scaled in full precision)");
  }
}

void convert_training(Conversion& c) {
  carry(c, "train.gradient_accumulation_steps", "train.accumulate");
  carry(c, "train.dataset_sink_mode", "train.dataset_sink_mode");
  const auto norm = c.given.take("train.clip_norm");
  if (is_true(c.given.take_text("train.clip_grad"))) {
    set_key(c.ours, "train.clip_norm", norm ? *norm : text_node("1.0"));
  } else if (norm) {
    c.passed_over.emplace_back("train.clip_norm (train.clip_grad is not True)");
  }
  std::vector<ConfigNode> callbacks;
  const auto decay = c.given.take("train.ema_decay");
  if (is_true(c.given.take_text("train.ema"))) {
    callbacks.push_back(named_node("ema", {{"decay", decay ? *decay : text_node("0.9999")}}));
    c.notes.push_back("MindOCR's average of the weights begins with a smaller decay, which grows in 2000 steps");
  } else if (decay) {
    c.passed_over.emplace_back("train.ema_decay (train.ema is not True)");
  }
  const auto indicator = c.given.take_text("metric.main_indicator");
  if (!indicator.empty()) {
    const bool is_hmean = indicator == "f-score" || indicator == "hmean";
    const auto metric = is_hmean ? "hmean" : indicator == "acc" ? "accuracy" : indicator;
    callbacks.push_back(named_node("best_checkpoints", {{"metric", text_node(metric)}}));
  }
  if (!callbacks.empty()) set_key(c.ours, "callbacks.use", list_node(std::move(callbacks)));
  const auto resume = c.given.take_text("model.resume");
  if (!resume.empty()) {
    set_key(c.ours, "checkpoint.resume", text_node(is_true(resume) ? "auto" : is_false(resume) ? "none" : resume));
  }
  if (c.given.take("eval.ckpt_load_path")) {
    c.passed_over.emplace_back("eval.ckpt_load_path (use lockstep eval --weights FILE)");
  }
  c.given.pass_over("eval", {"dataset_sink_mode", "pred_cast_fp32"});
  c.given.pass_over("train", {"pred_cast_fp32"});  // losses use float32 here
  c.given.pass_over("", {"predict"});              // `lockstep predict` uses the transforms of evaluation
}

void convert_loaders(Conversion& c) {
  carry(c, "train.loader.batch_size", "data.batch_size");
  carry(c, "eval.loader.batch_size", "data.eval_batch_size");
  carry(c, "train.loader.num_workers", "data.workers");
  const auto shuffle = c.given.take("train.loader.shuffle"), of_data = c.given.take("train.dataset.shuffle");
  if (shuffle || of_data) {
    const bool any = (shuffle && is_true(shuffle->scalar)) || (of_data && is_true(of_data->scalar));
    set_key(c.ours, "data.shuffle", text_node(any ? "true" : "false"));
  }
  const auto drops = c.given.take_text("train.loader.drop_remainder");
  if (!drops.empty()) set_key(c.ours, "data.remainder", text_node(is_true(drops) ? "drop" : "exact"));
  for (const auto* split : {"train", "eval"}) {
    c.given.pass_over(
        fmt::format("{}.loader", split),
        {"max_rowsize", "prefetch_size", "python_multiprocessing", "drop_remainder", "shuffle", "num_workers",
         "batch_size", "num_workers_dataset", "prefetch", "using_multiprocess_for_pipeline"});
    c.given.pass_over(fmt::format("{}.dataset", split),
                      {"output_columns", "net_input_column_index", "label_column_index", "shuffle", "extra_data_num",
                       "num_columns_to_net", "num_columns_of_labels"});
    if (const auto ratios = c.given.take(fmt::format("{}.dataset.sample_ratios", split))) {
      for (const auto& ratio : ratios->items) {
        if (ratio.scalar != "1" && ratio.scalar != "1.0") {
          c.lost.push_back(fmt::format("{}.dataset.sample_ratios ({})", split, ratio.scalar));
        }
      }
    }
    c.given.take_if(fmt::format("{}.dataset.sample_ratio", split), {"1", "1.0"});
  }
}

}  // namespace

ConvertedConfig convert_mindocr(const ConfigNode& theirs) {
  const auto* model = theirs.find("model");
  const auto* type = model == nullptr ? nullptr : model->find("type");
  if (type == nullptr || (type->scalar != "det" && type->scalar != "rec")) {
    fail(ErrorKind::config, "convert",
         "a configuration of MindOCR has model.type det or rec, and this one has {}; other programs' files, and "
         "MindOCR's classifiers and tables, are not converted",
         type == nullptr ? "none" : "'" + type->scalar + "'");
  }
  Conversion c{.given = GivenKeys(theirs), .ours = make_section(), .lost = {}, .notes = {}, .passed_over = {}};
  c.given.take("common");  // names for values that are used elsewhere
  c.given.take("model.type");
  convert_system(c);
  type->scalar == "det" ? convert_detection(c) : convert_recognition(c);
  convert_optimizer(c);
  convert_schedule(c);
  convert_training(c);
  convert_loaders(c);
  auto lost = c.given.left();
  lost.insert(lost.begin(), c.lost.begin(), c.lost.end());
  auto passed = c.given.passed();
  passed.insert(passed.end(), c.passed_over.begin(), c.passed_over.end());
  return {.root = std::move(c.ours),
          .lost = std::move(lost),
          .notes = std::move(c.notes),
          .passed_over = std::move(passed)};
}

std::string converted_text(const ConvertedConfig& converted, const std::string& from) {
  std::string text = fmt::format("# Made of {} by lockstep convert mindocr.\n", from);
  for (const auto& note : converted.notes) text += fmt::format("# To do: {}.\n", note);
  for (const auto& key : converted.lost) text += fmt::format("# Not carried: {}\n", key);
  if (!converted.passed_over.empty()) {
    text += fmt::format("# Ignored, as it has no effect here: {}\n", fmt::join(converted.passed_over, ", "));
  }
  return text + "\n" + print_yaml(converted.root);
}

}  // namespace lockstep::ocr
