// The statistics of a table as JSON, their comparison, and a check whether options fit them.
#include <lockstep/base/crypto.h>
#include <lockstep/base/error.h>
#include <lockstep/base/text.h>
#include <lockstep/base/utf8.h>
#include <lockstep/samples/table.h>

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

namespace lockstep::samples {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kBytes = "base64";

/// A text, or its bytes if JSON cannot represent them.
Json json_of(const std::string& text) {
  if (!first_not_utf8(text)) return text;
  return Json{{kBytes, to_base64(text)}};
}

std::string text_in(const Json& json) {
  if (!json.is_object()) return json.get<std::string>();
  auto bytes = from_base64(json.at(kBytes).get<std::string>());
  if (!bytes) throw std::invalid_argument("base64");
  return *bytes;
}

Json json_of(const std::vector<std::string>& texts) {
  auto list = Json::array();
  for (const auto& text : texts) list.push_back(json_of(text));
  return list;
}

std::vector<std::string> texts_in(const Json& json) {
  std::vector<std::string> texts;
  for (const auto& text : json) texts.push_back(text_in(text));
  return texts;
}

Json json_of(const std::vector<ColumnSpread>& columns) {
  auto list = Json::array();
  for (const auto& [column, mean, deviation] : columns) {
    list.push_back({{"column", json_of(column)}, {"mean", mean}, {"deviation", deviation}});
  }
  return list;
}

std::vector<ColumnSpread> spreads_in(const Json& json) {
  std::vector<ColumnSpread> columns;
  for (const auto& each : json) {
    columns.push_back({text_in(each.at("column")), each.at("mean").get<double>(), each.at("deviation").get<double>()});
  }
  return columns;
}

std::vector<std::string> names_of(const std::vector<ColumnSpread>& columns) {
  std::vector<std::string> names;
  for (const auto& each : columns) names.push_back(each.column);
  return names;
}

std::string difference_of(const std::vector<ColumnSpread>& then, const std::vector<ColumnSpread>& now) {
  for (std::size_t i = 0; i < then.size() && i < now.size(); ++i) {
    if (then[i] == now[i]) continue;
    return fmt::format("column {}: mean {:.6g} and deviation {:.6g} then, {:.6g} and {:.6g} now",
                       cut_text(then[i].column), then[i].mean, then[i].deviation, now[i].mean, now[i].deviation);
  }
  return {};
}

std::string difference_of(std::string_view column, const std::vector<std::string>& then,
                          const std::vector<std::string>& now) {
  const auto lacks = [](const auto& words) {
    return [&](const auto& word) { return !std::ranges::binary_search(words, word); };
  };
  if (const auto found = std::ranges::find_if(now, lacks(then)); found != now.end()) {
    return fmt::format("column {}: '{}' is new", cut_text(column), cut_text(*found));
  }
  if (const auto found = std::ranges::find_if(then, lacks(now)); found != then.end()) {
    return fmt::format("column {}: '{}' is missing now", cut_text(column), cut_text(*found));
  }
  return {};
}

}  // namespace

std::string text_of(const TableStatistics& statistics) {
  Json json{{"standardize", statistics.standardizes}, {"numbers", json_of(statistics.numbers)}};
  json["categories"] = Json::array();
  for (const auto& [column, words] : statistics.categories) {
    json["categories"].push_back({{"column", json_of(column)}, {"words", json_of(words)}});
  }
  json["standardize_targets"] = statistics.standardizes_targets;
  json["targets"] = json_of(statistics.targets);
  json["classes"] = json_of(statistics.classes);
  return json.dump(2) + "\n";
}

TableStatistics table_statistics_in(const std::string& text, const std::string& file) {
  try {
    const auto json = Json::parse(text);
    TableStatistics out;
    out.standardizes = json.at("standardize").get<bool>();
    out.numbers = spreads_in(json.at("numbers"));
    for (const auto& each : json.at("categories")) {
      out.categories.push_back({text_in(each.at("column")), texts_in(each.at("words"))});
      if (!std::ranges::is_sorted(out.categories.back().words)) throw std::invalid_argument("order");
    }
    out.standardizes_targets = json.at("standardize_targets").get<bool>();
    out.targets = spreads_in(json.at("targets"));
    out.classes = texts_in(json.at("classes"));
    if (!std::ranges::is_sorted(out.classes)) throw std::invalid_argument("order");
    return out;
  } catch (const std::exception& error) {
    fail(ErrorKind::data, "data",
         "{} is damaged: it should be the statistics of a table, as a run leaves them ({}); remove it, and those of "
         "data.train count",
         file, cut_text(error.what(), 200));
  }
}

std::string difference_between(const TableStatistics& then, const TableStatistics& now) {
  auto text = difference_of(then.numbers, now.numbers);
  for (std::size_t i = 0; text.empty() && i < then.categories.size() && i < now.categories.size(); ++i) {
    text = difference_of(then.categories[i].column, then.categories[i].words, now.categories[i].words);
  }
  if (text.empty()) text = difference_of(then.targets, now.targets);
  if (text.empty()) text = difference_of("of classes", then.classes, now.classes);
  return text;
}

void require_columns_of(const TableStatistics& statistics, const TableOptions& options) {
  constexpr std::string_view kAdvice =
      "give what they were trained with (see the config.yaml of their run), or train again in another folder";
  const auto require = [&](std::string_view key, const std::vector<std::string>& learned,
                           const std::vector<std::string>& given) {
    if (learned == given) return;
    fail(ErrorKind::config, key, "is [{}], and the weights were trained with [{}]; {}",
         cut_text(fmt::format("{}", fmt::join(given, ", ")), 200),
         cut_text(fmt::format("{}", fmt::join(learned, ", ")), 200), kAdvice);
  };
  std::vector<std::string> categories;
  for (const auto& each : statistics.categories) categories.push_back(each.column);
  require("data.numbers", names_of(statistics.numbers), options.numbers);
  require("data.categories", categories, options.categories);
  const bool was_category = statistics.targets.empty(), is_category = options.target == "category";
  if (was_category != is_category) {
    fail(ErrorKind::config, "data.target", "is {}, and the weights were trained with {}; {}", options.target,
         was_category ? "category" : "numbers", kAdvice);
  }
  if (!is_category) require("data.targets", names_of(statistics.targets), options.targets);
  const auto require_same = [&](std::string_view key, bool learned, bool given) {
    if (learned == given) return;
    fail(ErrorKind::config, key, "is {}, and the weights were trained with {}; {}", given, learned, kAdvice);
  };
  require_same("data.standardize", statistics.standardizes, options.standardize);
  require_same("data.standardize_targets", statistics.standardizes_targets, options.standardize_targets);
}

}  // namespace lockstep::samples
