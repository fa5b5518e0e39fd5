// JSON of Kubernetes' objects: reading fields that may be missing or of another type; times as Kubernetes writes them
// in fields (RFC 3339, UTC); and values as YAML text and back, for files that people read and write.
#pragma once

#include <nlohmann/json.hpp>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::kube {

/// The text of a field; empty when the field is missing or not a text.
std::string text_at(const nlohmann::json& object, std::string_view key);
std::optional<std::int64_t> integer_at(const nlohmann::json& object, std::string_view key);
bool true_at(const nlohmann::json& object, std::string_view key);
/// The object or list in a field; empty when the field is missing or has another type.
const nlohmann::json& object_at(const nlohmann::json& object, std::string_view key);
const nlohmann::json& list_at(const nlohmann::json& object, std::string_view key);

/// The fields of metadata that every object has.
std::string name_of(const nlohmann::json& object);
std::string space_of(const nlohmann::json& object);
std::string uid_of(const nlohmann::json& object);
std::string version_of(const nlohmann::json& object);
/// A label; empty when it is missing.
std::string label_of(const nlohmann::json& object, std::string_view key);

/// The uid of the controller among the owners; empty when there is none.
std::string controller_uid(const nlohmann::json& object);
std::string controller_kind(const nlohmann::json& object);

using Seconds = std::chrono::sys_seconds;
using Time = std::chrono::system_clock::time_point;

/// "2026-03-01T12:00:00Z".
std::string time_text(Seconds time);
/// "2026-03-01T12:00:00.000000Z", the format of a Lease.
std::string micro_time_text(Time time);

/// Reads both formats; fractions of a second of any length are dropped. nullopt for other texts.
std::optional<Seconds> parse_time(std::string_view text);

/// Block style; ends with a newline. Text is quoted where it could be read as something else.
std::string print_yaml_of(const nlohmann::ordered_json& value);

/// The documents of a YAML text, separated by "---" lines; empty ones are left out. Scalars get YAML's types (null,
/// booleans, integers, fractions); quoted ones are text. Error(config) at file:line for text that is not YAML.
std::vector<nlohmann::ordered_json> parse_yaml_documents(std::string_view text, const std::string& file);

}  // namespace lockstep::kube
