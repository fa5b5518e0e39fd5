// Requests and answers of etcd's transactions (/v3/kv/txn) and leases as JSON.
#include <lockstep/base/base64.h>
#include <lockstep/base/error.h>
#include <lockstep/base/text.h>
#include <lockstep/cluster/etcd/messages.h>

namespace lockstep::cluster::etcd {
namespace {

using nlohmann::json;

[[noreturn]] void refuse(const json& answer) {
  constexpr std::size_t kMost = 200;
  const auto text = answer.dump(-1, ' ', true, json::error_handler_t::replace);
  fail(ErrorKind::io, "etcd", "an answer of etcd does not have the form of etcd 3.4 or newer: {}",
       text.substr(0, kMost));
}

const json& field(const json& object, const char* name) {
  if (!object.is_object() || !object.contains(name)) refuse(object);
  return object[name];
}

std::int64_t integer(const json& owner, const json& text) {
  const auto value = text.is_string() ? parse_integer(text.get<std::string>()) : std::nullopt;
  if (!value) refuse(owner);
  return *value;
}

}  // namespace

json find_in_txn(const std::string& key) {
  const auto request = json::object({{"key", to_base64(key)}});
  return json::object({{"request_range", request}});
}

json put_in_txn(const std::string& key, const std::string& value, const std::string& lease) {
  const auto request = json::object({{"key", to_base64(key)}, {"value", to_base64(value)}, {"lease", lease}});
  return json::object({{"request_put", request}});
}

json delete_in_txn(const std::string& key) {
  return json::object({{"request_delete_range", json::object({{"key", to_base64(key)}})}});
}

json txn(const json& requests) { return json::object({{"success", requests}}); }

json txn(const json& condition, const json& then, const json& otherwise) {
  const auto conditions = condition.is_array() ? condition : json::array({condition});
  return json::object({{"compare", conditions}, {"success", then}, {"failure", otherwise}});
}

json if_created_at(const std::string& key, std::int64_t revision) {
  return json::object({{"key", to_base64(key)},
                       {"target", "CREATE"},
                       {"result", "EQUAL"},
                       {"create_revision", std::to_string(revision)}});
}

json if_written_at(const std::string& key, std::int64_t revision) {
  return json::object(
      {{"key", to_base64(key)}, {"target", "MOD"}, {"result", "EQUAL"}, {"mod_revision", std::to_string(revision)}});
}

std::int64_t revision_of_entry(const json& entry) {
  return entry.is_null() ? 0 : integer(entry, field(entry, "mod_revision"));
}

std::int64_t revision_of(const json& answer) { return integer(answer, field(field(answer, "header"), "revision")); }

bool succeeded(const json& answer) { return answer.contains("succeeded") && answer["succeeded"] == true; }

json entry_in_txn(const json& answer, std::size_t index) {
  const json& responses = field(answer, "responses");
  if (!responses.is_array() || responses.size() <= index) refuse(answer);
  const json& range = field(responses[index], "response_range");
  if (!range.is_object()) refuse(answer);
  if (!range.contains("kvs")) return nullptr;
  const json& entries = range["kvs"];
  if (!entries.is_array() || entries.size() > 1) refuse(answer);
  return entries.empty() ? json() : entries[0];
}

std::optional<std::string> value_of(const json& entry) {
  if (entry.is_null()) return std::nullopt;
  if (!entry.is_object()) refuse(entry);
  if (!entry.contains("value")) return "";
  auto bytes = entry["value"].is_string() ? from_base64(entry["value"].get<std::string>()) : std::nullopt;
  if (!bytes) refuse(entry);
  return bytes;
}

bool lease_is_alive(const json& answer) {
  const json& result = field(answer, "result");
  return result.is_object() && result.contains("TTL") && integer(answer, result["TTL"]) > 0;
}

}  // namespace lockstep::cluster::etcd
