// Look-ups in JSON objects that give an empty value where a field is missing or of another type; a printer and a strict
// parser of RFC 3339 times in UTC, with microseconds for Leases; and JSON through yaml-cpp's emitter, with a reader of
// YAML files of several documents.
#include <apps/operator/job/json.h>
#include <lockstep/base/text.h>
#include <lockstep/base/yaml_text.h>

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <array>
#include <cctype>

namespace lockstep::kube {
namespace {

using nlohmann::json;

const json* find_in(const json& object, std::string_view key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() ? nullptr : &*found;
}

const json* controller_of(const json& object) {
  for (const json& owner : list_at(object_at(object, "metadata"), "ownerReferences")) {
    if (true_at(owner, "controller")) return &owner;
  }
  return nullptr;
}

std::string date_text(Seconds time) {
  using namespace std::chrono;
  const auto day = floor<days>(time);
  const year_month_day date(day);
  const hh_mm_ss clock(time - day);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()), clock.hours().count(),
                     clock.minutes().count(), clock.seconds().count());
}

}  // namespace

std::string text_at(const json& object, std::string_view key) {
  const json* found = find_in(object, key);
  return found != nullptr && found->is_string() ? found->get<std::string>() : "";
}

std::optional<std::int64_t> integer_at(const json& object, std::string_view key) {
  const json* found = find_in(object, key);
  if (found == nullptr || !found->is_number_integer()) return std::nullopt;
  return found->get<std::int64_t>();
}

bool true_at(const json& object, std::string_view key) {
  const json* found = find_in(object, key);
  return found != nullptr && found->is_boolean() && found->get<bool>();
}

const json& object_at(const json& object, std::string_view key) {
  static const json kNone = json::object();
  const json* found = find_in(object, key);
  return found != nullptr && found->is_object() ? *found : kNone;
}

const json& list_at(const json& object, std::string_view key) {
  static const json kNone = json::array();
  const json* found = find_in(object, key);
  return found != nullptr && found->is_array() ? *found : kNone;
}

std::string name_of(const json& object) { return text_at(object_at(object, "metadata"), "name"); }
std::string space_of(const json& object) { return text_at(object_at(object, "metadata"), "namespace"); }
std::string uid_of(const json& object) { return text_at(object_at(object, "metadata"), "uid"); }
std::string version_of(const json& object) { return text_at(object_at(object, "metadata"), "resourceVersion"); }

std::string label_of(const json& object, std::string_view key) {
  return text_at(object_at(object_at(object, "metadata"), "labels"), key);
}

std::string controller_uid(const json& object) {
  const json* owner = controller_of(object);
  return owner == nullptr ? "" : text_at(*owner, "uid");
}

std::string controller_kind(const json& object) {
  const json* owner = controller_of(object);
  return owner == nullptr ? "" : text_at(*owner, "kind");
}

std::string time_text(Seconds time) { return date_text(time) + "Z"; }

std::string micro_time_text(Time time) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(time);
  const auto micro = std::chrono::duration_cast<std::chrono::microseconds>(time - seconds).count();
  return fmt::format("{}.{:06}Z", date_text(seconds), micro);
}

std::optional<Seconds> parse_time(std::string_view text) {
  using namespace std::chrono;
  constexpr std::string_view kShape = "0000-00-00T00:00:00";
  if (text.size() <= kShape.size() || text.back() != 'Z') return std::nullopt;
  for (std::size_t i = 0; i < kShape.size(); ++i) {
    const bool digit = text[i] >= '0' && text[i] <= '9';
    if (kShape[i] == '0' ? !digit : text[i] != kShape[i]) return std::nullopt;
  }
  const auto fraction = text.substr(kShape.size(), text.size() - kShape.size() - 1);
  if (!fraction.empty() &&
      (fraction.size() < 2 || fraction[0] != '.' || fraction.find_first_not_of("0123456789", 1) != fraction.npos)) {
    return std::nullopt;
  }
  const auto number = [&](std::size_t begin, std::size_t size) {
    return static_cast<int>(*parse_integer(text.substr(begin, size)));
  };
  const year_month_day date(year(number(0, 4)), month(static_cast<unsigned>(number(5, 2))),
                            day(static_cast<unsigned>(number(8, 2))));
  if (!date.ok() || number(11, 2) > 23 || number(14, 2) > 59 || number(17, 2) > 60) return std::nullopt;
  return sys_days(date) + hours(number(11, 2)) + minutes(number(14, 2)) + seconds(number(17, 2));
}

namespace {

using Json = nlohmann::ordered_json;

/// Whether a text without quotes may be something else for some YAML reader: a number, a date, a word of YAML 1.1, the
/// same text with other ends of lines.
bool needs_quotes(std::string text) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  if (text.empty() || !(is_letter(text.front()) || text.front() == '/')) return true;
  if (!std::ranges::all_of(text, [](char c) { return c >= ' ' && c <= '~'; })) return true;
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  constexpr std::array kWords{"null", "true", "false", "yes", "no", "on", "off", "y", "n"};
  return std::ranges::find(kWords, text) != kWords.end();
}

void emit_text(YAML::Emitter& out, const std::string& text) {
  if (needs_quotes(text)) out << YAML::DoubleQuoted;
  out << text;
}

void emit(YAML::Emitter& out, const Json& value) {
  if (value.is_structured() && value.empty()) out << YAML::Flow;
  if (value.is_object()) {
    out << YAML::BeginMap;
    for (const auto& [key, item] : value.items()) {
      out << YAML::Key;
      emit_text(out, key);
      out << YAML::Value;
      emit(out, item);
    }
    out << YAML::EndMap;
  } else if (value.is_array()) {
    out << YAML::BeginSeq;
    for (const Json& item : value) emit(out, item);
    out << YAML::EndSeq;
  } else if (value.is_string()) {
    emit_text(out, value.get<std::string>());
  } else if (value.is_null()) {
    out << YAML::Null;
  } else {
    out << value.dump();
  }
}

Json json_of(const ConfigNode& node) {
  switch (node.kind) {
    case ConfigNode::Kind::null: return nullptr;
    case ConfigNode::Kind::list: {
      Json list = Json::array();
      for (const ConfigNode& item : node.items) list.push_back(json_of(item));
      return list;
    }
    case ConfigNode::Kind::map: {
      Json map = Json::object();
      for (const auto& entry : node.entries) map[entry.key] = json_of(entry.value);
      return map;
    }
    case ConfigNode::Kind::scalar: break;
  }
  if (node.quoted) return node.scalar;
  if (node.scalar == "true" || node.scalar == "false") return node.scalar == "true";
  if (const auto integer = parse_integer(node.scalar)) return *integer;
  if (const auto number = parse_number(node.scalar)) return *number;
  return node.scalar;
}

}  // namespace

std::string print_yaml_of(const Json& value) {
  YAML::Emitter out;
  emit(out, value);
  return std::string(out.c_str()) + "\n";
}

std::vector<Json> parse_yaml_documents(std::string_view text, const std::string& file) {
  std::vector<Json> documents;
  std::string document;
  const auto finish = [&] {
    auto value = json_of(parse_yaml(document, file));
    if (!value.is_null()) documents.push_back(std::move(value));
    // Line numbers of the next document count from the beginning of the file.
    document = std::string(static_cast<std::size_t>(std::count(document.begin(), document.end(), '\n')), '\n');
  };
  while (!text.empty()) {
    const auto line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (line == "---" || line.starts_with("--- ") || line == "---\r") {
      finish();
      document += "\n";
    } else {
      document.append(line).append("\n");
    }
  }
  finish();
  return documents;
}

}  // namespace lockstep::kube
