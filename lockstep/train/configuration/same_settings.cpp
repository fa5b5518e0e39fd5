// A comparison of every rank's settings with those of rank 0 by two collectives, before training depends on them.
#include <lockstep/base/error.h>
#include <lockstep/base/text.h>
#include <lockstep/comm/texts.h>
#include <lockstep/train/configuration/changes.h>
#include <lockstep/train/configuration/same_settings.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>

namespace lockstep::train {
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
  return !is_about_rendezvous(key) && std::ranges::find(kOwn, key) == kOwn.end();
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
