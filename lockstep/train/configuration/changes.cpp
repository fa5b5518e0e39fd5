// The classification of changed settings of a resumed run (fixed, shaping the result, or only shown), with error texts;
// and the settings that all ranks of a run must have alike.
#include <lockstep/base/config.h>
#include <lockstep/base/config_reader.h>
#include <lockstep/base/error.h>
#include <lockstep/base/nearest.h>
#include <lockstep/base/text.h>
#include <lockstep/base/yaml_text.h>
#include <lockstep/comm/texts.h>
#include <lockstep/train/configuration/changes.h>
#include <lockstep/train/keys/config_keys.h>
#include <lockstep/train/modes/auto_mode.h>
#include <lockstep/train/modes/mesh_config.h>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

namespace lockstep::train {
namespace {

constexpr std::string_view kMode = "parallel.mode", kServerSection = "parallel.server";
constexpr std::string_view kRanks = "ranks", kTotalSteps = "steps of the whole run";

bool is_one_of(std::string_view key, const auto& keys) { return std::ranges::find(keys, key) != std::end(keys); }

/// Whether a key belongs to the rendezvous of a job: addresses and files that may differ between processes.
bool is_about_rendezvous(std::string_view key) {
  constexpr std::array<std::string_view, 3> kNodes{"parallel.nodes", "parallel.ctrl_port", "parallel.devices_per_node"};
  return key.starts_with("cluster.") || is_one_of(key, kNodes);
}

bool is_about_going_on(std::string_view key) { return key == "checkpoint.resume" || key == "checkpoint.allow_changes"; }

/// The keys that run_settings() covers, perhaps together with others.
bool is_in_settings(std::string_view key) {
  constexpr std::array<std::string_view, 8> kKeys{"system.seed",      "model.name",     "data.name",
                                                  "data.shuffle",     "data.remainder", "data.shuffle_seed",
                                                  "train.accumulate", "optimizer.name"};
  return is_one_of(key, kKeys);
}

std::string_view value_of(const Settings& settings, std::string_view key) {
  const auto found = settings.find(key);
  return found == settings.end() ? std::string_view() : found->second;
}

bool has_servers(std::string_view mode) { return mode == "parameter_server"; }

/// Whether a run with these settings uses the key. (Only keys of the chosen optimizer and schedule are recorded.)
bool is_used(std::string_view key, const Settings& run) {
  if (key.starts_with("parallel.server.")) return has_servers(value_of(run, kMode));
  const auto model = value_of(run, "model.name");
  return key != "model.hidden" || model == "mlp" || model == "vgg11";
}

/// The keys that every run has; all others belong to parts, or to a program.
std::vector<std::string> common_keys() {
  std::vector<std::string> keys{std::string(kRanks)};
  for (const auto& each : list_keys<ResolvedRun>()) keys.push_back(each.path);
  return keys;
}

/// The keys of a comparison.
struct KnownKeys {
  std::vector<std::string> common;
  std::vector<std::string> paths;  ///< a_path()
};

/// Whether the key belongs to a part or a program, and is neither a path nor an option for the output of evaluations.
bool shapes_part(std::string_view key, const KnownKeys& known) {
  constexpr std::array<std::string_view, 7> kDisplay{"task.prompt", "task.sample_bytes", "task.temperature",
                                                     "task.top_k",  "task.top_p",        "task.text_seed",
                                                     "data.keys"};
  return !is_one_of(key, known.common) && !is_one_of(key, known.paths) && !is_one_of(key, kDisplay);
}

Weight weight_of(std::string_view key, const Settings& before, const Settings& now, const KnownKeys& known) {
  constexpr std::array<std::string_view, 4> kFixed{"model.hidden", "model.num_classes", "parallel.server.parameters",
                                                   "parallel.server.slice_kb"};
  constexpr std::array<std::string_view, 19> kShaping{"parallel.server.consistency",
                                                      "parallel.server.staleness",
                                                      "model.weights_key",
                                                      "model.weights_prefix",
                                                      "model.weights_except",
                                                      "model.weights",
                                                      "model.weights_rename",
                                                      "model.weights_strict",
                                                      "model.weights_average",
                                                      "model.autocast",
                                                      "model.freeze",
                                                      "train.clip_norm",
                                                      "parallel.gradients_mean",
                                                      "data.train_transforms",
                                                      "data.eval_transforms",
                                                      "parallel.sync_batch_norm",
                                                      "parallel.buffers",
                                                      "train.dataset_sink_mode",
                                                      "train.sink_size"};
  if (!is_used(key, before) && !is_used(key, now)) return Weight::shown;
  if (is_one_of(key, kFixed)) return Weight::fixed;
  if (key == kMode && has_servers(value_of(before, key)) != has_servers(value_of(now, key))) return Weight::fixed;
  if (is_one_of(key, kShaping)) return Weight::shapes_result;
  if (key == "train.epochs" || key == "train.steps") {
    const bool matters =
        looks_ahead(value_of(before, "scheduler.name")) || looks_ahead(value_of(now, "scheduler.name"));
    const bool same_end = value_of(before, kTotalSteps) == value_of(now, kTotalSteps);
    return matters && !same_end ? Weight::shapes_result : Weight::shown;
  }
  const auto shaping_section = [key](std::string_view section) { return key.starts_with(section); };
  const bool shapes = shaping_section("loss.") || shaping_section("loss_scaler.") || shaping_section("optimizer.") ||
                      shaping_section("scheduler.") || shapes_part(key, known);
  return shapes ? Weight::shapes_result : Weight::shown;
}

/// The parsed value of checkpoint.allow_changes.
struct Allowed {
  bool all = false;
  std::vector<std::string> keys;

  bool covers(std::string_view key) const {
    const auto is_it = [key](const std::string& each) { return key == each || key.starts_with(each + "."); };
    return all || std::any_of(keys.begin(), keys.end(), is_it);
  }
};

Allowed allowed_changes(const ResolvedRun& config) {
  const auto& node = config.checkpoint.allow_changes;
  const auto wrong = [&node](const std::string& found) {
    throw Error(ErrorKind::config, "config",
                fmt::format("checkpoint.allow_changes: expected true, or the keys that may change, e.g. "
                            "[optimizer.lr, scheduler], found {}",
                            found),
                node.position);
  };
  Allowed allowed;
  const auto take = [&](const ConfigNode& item) {
    if (item.kind != ConfigNode::Kind::scalar) wrong(describe_found(item));
    auto keys = all_keys(config);
    for (const auto& [key, value] : all_settings(config)) keys.push_back(key);  // including the keys of a program
    if (!is_one_of(item.scalar, keys)) {
      wrong(fmt::format("'{}', which is not a key{}", item.scalar, did_you_mean(item.scalar, keys)));
    }
    allowed.keys.push_back(item.scalar);
  };
  switch (node.kind) {
    case ConfigNode::Kind::null: break;
    case ConfigNode::Kind::list:
      for (const auto& item : node.items) take(item);
      break;
    case ConfigNode::Kind::scalar:
      allowed.all = node.scalar == "true";
      if (!allowed.all && node.scalar != "false") take(node);
      break;
    case ConfigNode::Kind::map: wrong(describe_found(node));
  }
  return allowed;
}

std::string shortened(const std::string& text) {
  constexpr std::size_t kMost = 200;
  return text.size() <= kMost ? text : text.substr(0, kMost) + "...";
}

std::string lines_of(const std::vector<Change>& changes, const auto& condition) {
  std::string text;
  for (const auto& change : changes) {
    if (condition(change)) text += fmt::format("\n  {}", describe(change));
  }
  return text;
}

/// Advice on how to get the settings that a checkpoint of the other kind needs; empty if the difference is another one.
std::string how_to_have_servers(const std::vector<Change>& changes) {
  const auto mode = std::ranges::find_if(
      changes, [](const Change& change) { return change.key == kMode && change.weight == Weight::fixed; });
  if (mode == changes.end()) return "";
  if (has_servers(mode->now)) return " Its tables were in the ranks, so go on without parameter servers.";
  return " Its tables were on parameter servers, so start them again (lockstep run --servers, MS_SERVER_NUM or "
         "cluster.server_num, with parallel.mode=parameter_server).";
}

/// Advice on how to keep the batch on another number of ranks; empty if the difference is another one.
std::string how_to_be_elastic(const std::vector<Change>& changes, const ResolvedRun& config) {
  const auto batch = std::ranges::find_if(changes, [](const Change& change) { return change.key == kGlobalBatch; });
  if (batch == changes.end() || config.data.global_batch_size) return "";
  return fmt::format(
      " data.batch_size counts the pictures of each rank, so all ranks together have more or fewer of them when their "
      "number changes. With data.global_batch_size={} in place of data.batch_size (null on the command line) the run "
      "goes on with any number of ranks (docs/surviving.md).",
      batch->before);
}

}  // namespace

Settings all_settings(const ResolvedRun& config) {
  Settings settings;
  for (const auto& section : parse_config(print_config(config), "configuration").root.entries) {
    for (const auto& [name, value] : section.value.entries) {
      const auto key = fmt::format("{}.{}", section.key, name);
      if (key != kServerSection) {
        settings.emplace(key, print_yaml_flow(value));
        continue;
      }
      for (const auto& [inner, of_servers] : value.entries) {
        settings.emplace(fmt::format("{}.{}", key, inner), print_yaml_flow(of_servers));
      }
    }
  }
  return settings;
}

Settings recorded_configuration(const ResolvedRun& config, const RunFacts& facts) {
  ResolvedRun counted = config;
  const auto& mode = config.parallel.mode;
  if (is_global_mode(config.parallel) || is_auto_mode(config.parallel)) counted.parallel.sync_batch_norm = true;
  Settings recorded = all_settings(counted);
  std::erase_if(recorded,
                [](const auto& each) { return is_about_rendezvous(each.first) || is_about_going_on(each.first); });
  if (!facts.has_batch_norm) recorded.erase("parallel.sync_batch_norm");
  if (!facts.has_batch_norm || counted.parallel.sync_batch_norm) recorded.erase("parallel.buffers");
  if (mode == "stand_alone") recorded.erase("parallel.sync_batch_norm");
  for (const auto* key : {"partition", "replicas", "cache_rows"}) {
    recorded.erase(fmt::format("parallel.server.{}", key));  // the location of rows does not change the result
  }
  recorded.emplace(kRanks, std::to_string(facts.ranks));
  recorded.emplace(kTotalSteps, std::to_string(facts.total_steps));
  return recorded;
}

std::vector<Change> find_changes(const RunState& saved, const Settings& settings, const Settings& configuration,
                                 const ResolvedRun& config) {
  const KnownKeys known{.common = common_keys(),
                        .paths = path_keys([copy = config](ConfigFields& fields) mutable { describe(fields, copy); })};
  std::vector<Change> changes;
  for (const auto& [key, now] : settings) {
    const auto before = saved.settings.find(key);
    if (before != saved.settings.end() && before->second == now) continue;
    changes.push_back({key, before == saved.settings.end() ? "(not recorded)" : before->second, now, Weight::fixed});
  }
  for (const auto& [key, now] : configuration) {
    const auto before = saved.configuration.find(key);
    if (before == saved.configuration.end() || before->second == now) continue;
    if (is_in_settings(key) || key == kTotalSteps) continue;
    changes.push_back({key, before->second, now, weight_of(key, saved.configuration, configuration, known)});
  }
  std::ranges::stable_sort(changes, std::ranges::greater(), &Change::weight);
  return changes;
}

std::string describe(const Change& change) {
  return fmt::format("{}: {} -> {}", change.key, shortened(change.before), shortened(change.now));
}

bool shapes_result(const std::vector<Change>& changes) {
  return std::ranges::any_of(changes, [](const Change& change) { return change.weight != Weight::shown; });
}

void require_allowed(const std::vector<Change>& changes, const ResolvedRun& config, std::string_view origin) {
  const auto allowed = allowed_changes(config);
  const auto is_fixed = [](const Change& change) { return change.weight == Weight::fixed; };
  const auto is_refused = [&](const Change& change) {
    return change.weight == Weight::shapes_result && !allowed.covers(change.key);
  };
  const auto others = [&](const auto& told) {
    const auto text = lines_of(changes, [&](const Change& change) { return !told(change); });
    return text.empty() ? "" : "\nDifferent besides:" + text;
  };
  constexpr std::string_view kWasIs = "(before -> now)";
  if (std::ranges::any_of(changes, is_fixed)) {
    fail(ErrorKind::config, "checkpoint.resume",
         "this run cannot go on from {}, because they differ in what must stay the same {}:{}{}\nGo on with the old "
         "values, or start from the beginning in {}.{}",
         origin, kWasIs, lines_of(changes, is_fixed), others(is_fixed), another_folder(config),
         how_to_be_elastic(changes, config) + how_to_have_servers(changes));
  }
  if (!std::ranges::any_of(changes, is_refused)) return;
  std::vector<std::string> keys = allowed.keys;
  for (const auto& change : changes) {
    if (is_refused(change)) keys.push_back(change.key);
  }
  fail(ErrorKind::config, "checkpoint.resume",
       "this run would go on from {}, and differs from it in what shapes the result {}:{}{}\nRestore the old values, "
       "or go on with the new ones by checkpoint.allow_changes=[{}], or start from the beginning in another "
       "system.work_dir.",
       origin, kWasIs, lines_of(changes, is_refused), others(is_refused), fmt::join(keys, ","));
}

void check_allowed_changes(const ResolvedRun& config) { allowed_changes(config); }

namespace {

bool is_common(std::string_view key) {
  constexpr std::array<std::string_view, 11> kOwn{"system.work_dir",
                                                  "system.device",
                                                  "system.threads",
                                                  "system.log_level",
                                                  "data.root",
                                                  "data.workers",
                                                  "checkpoint.folder",
                                                  "model.weights",
                                                  "callbacks.progress",
                                                  "callbacks.console_ranks",
                                                  "parallel.start_timeout_s"};
  return !is_about_rendezvous(key) && !is_one_of(key, kOwn);
}

std::string value_in(const Settings& settings, const std::string& key) {
  constexpr std::size_t kMostShown = 100;
  const auto found = settings.find(key);
  return found == settings.end() ? "nothing" : cut_text(found->second, kMostShown);
}

/// "system.seed is 1 there and 0 on rank 0, ..."; empty where nothing differs.
std::string differences(const Settings& own, const Settings& of_rank_0) {
  std::string text;
  const auto compare = [&](const std::string& key) {
    text += fmt::format("{}{} is {} there and {} on rank 0", text.empty() ? "" : ", ", key, value_in(own, key),
                        value_in(of_rank_0, key));
  };
  for (const auto& [key, value] : own) {
    const auto other = of_rank_0.find(key);
    if (other == of_rank_0.end() || other->second != value) compare(key);
  }
  for (const auto& [key, value] : of_rank_0) {
    if (!own.contains(key)) compare(key);
  }
  return text;
}

}  // namespace

Settings common_settings(const ResolvedRun& config) {
  Settings common = all_settings(config);
  std::erase_if(common, [](const auto& each) { return !is_common(each.first); });
  return common;
}

Settings require_same_settings(Settings own, const Group& group) {
  if (group.size() == 1) return own;
  const auto text = nlohmann::json(own).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  const auto of_rank_0 = share_text(text, group);
  const auto found = text == of_rank_0 ? "" : differences(own, nlohmann::json::parse(of_rank_0).get<Settings>());
  const auto by_rank = gather_texts(found, group);
  const auto first = std::ranges::find_if(by_rank, [](const std::string& each) { return !each.empty(); });
  if (first == by_rank.end()) return own;
  const auto others = std::count_if(first + 1, by_rank.end(), [](const std::string& each) { return !each.empty(); });
  fail(ErrorKind::config, "config",
       "rank {} does not have the settings of rank 0: {}{}. All ranks need one configuration: the same file with the "
       "same keys on the command line, and the same data, on every host",
       first - by_rank.begin(), *first, others > 0 ? fmt::format(" ({} more ranks differ from rank 0)", others) : "");
}

}  // namespace lockstep::train
