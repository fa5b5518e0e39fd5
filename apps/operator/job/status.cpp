// JSON of a LockstepJob's status, its conditions, and sets of indexes as text (0-2,7).
#include <apps/operator/job/job.h>
#include <apps/operator/job/json.h>
#include <lockstep/base/text.h>

#include <fmt/format.h>

#include <algorithm>

namespace lockstep::kube {
namespace {

using nlohmann::json;

constexpr int kMostIndexes = 1 << 20;  // the status may be written by another client

json to_json(const Condition& condition) {
  return {{"type", condition.type},
          {"status", condition.holds ? "True" : "False"},
          {"reason", condition.reason},
          {"message", condition.message},
          {"lastTransitionTime", time_text(condition.since)}};
}

json to_json(const Failure& failure) {
  json made = {{"pod", failure.pod},        {"uid", failure.uid},       {"role", name(failure.role)},
               {"index", failure.index},    {"reason", failure.reason}, {"message", failure.message},
               {"attempt", failure.attempt}};
  if (!failure.node.empty()) made["node"] = failure.node;
  if (failure.exit_code) made["exitCode"] = *failure.exit_code;
  return made;
}

/// Some servers treat an empty text as null, and reject it.
void drop_empty_texts(json& value) {
  if (!value.is_structured()) return;
  for (auto at = value.begin(); at != value.end();) {
    if (value.is_object() && *at == "") {
      at = value.erase(at);
    } else {
      drop_empty_texts(*at);
      ++at;
    }
  }
}

std::optional<Condition> parse_condition(const json& from) {
  if (!from.is_object() || text_at(from, "type").empty()) return std::nullopt;
  return Condition{text_at(from, "type"), text_at(from, "status") == "True", text_at(from, "reason"),
                   text_at(from, "message"), parse_time(text_at(from, "lastTransitionTime")).value_or(Seconds())};
}

Failure parse_failure(const json& from) {
  Failure failure;
  failure.pod = text_at(from, "pod");
  failure.uid = text_at(from, "uid");
  failure.role = parse_role(text_at(from, "role")).value_or(Role::worker);
  failure.index = static_cast<int>(integer_at(from, "index").value_or(0));
  failure.node = text_at(from, "node");
  if (const auto code = integer_at(from, "exitCode")) failure.exit_code = static_cast<int>(*code);
  failure.reason = text_at(from, "reason");
  failure.message = text_at(from, "message");
  failure.attempt = static_cast<int>(integer_at(from, "attempt").value_or(0));
  return failure;
}

std::optional<Seconds> time_at(const json& from, const char* key) { return parse_time(text_at(from, key)); }

int count_at(const json& from, const char* key) {
  return static_cast<int>(std::clamp<std::int64_t>(integer_at(from, key).value_or(0), 0, 1 << 30));
}

}  // namespace

std::string_view name(Role role) {
  switch (role) {
    case Role::scheduler: return "Scheduler";
    case Role::ps: return "PS";
    case Role::worker: return "Worker";
  }
  return "?";
}

std::optional<Role> parse_role(std::string_view text) {
  for (const Role role : kRoles) {
    if (name(role) == text) return role;
  }
  return std::nullopt;
}

const Condition* Status::find(std::string_view type) const {
  const auto found =
      std::find_if(conditions.begin(), conditions.end(), [&](const Condition& c) { return c.type == type; });
  return found == conditions.end() ? nullptr : &*found;
}

bool Status::holds(std::string_view type) const {
  const Condition* found = find(type);
  return found != nullptr && found->holds;
}

void Status::set(std::string_view type, bool now_holds, std::string reason, std::string message, Seconds now) {
  auto found = std::find_if(conditions.begin(), conditions.end(), [&](const Condition& c) { return c.type == type; });
  if (found == conditions.end()) {
    if (!now_holds) return;
    found = conditions.insert(conditions.end(), Condition{std::string(type), false, "", "", now});
  }
  if (found->holds != now_holds) found->since = now;
  found->holds = now_holds;
  found->reason = std::move(reason);
  found->message = std::move(message);
}

int Status::replacement(Role role, int index) const {
  const auto of_role = replacements.find(role);
  if (of_role == replacements.end()) return 0;
  const auto found = of_role->second.find(index);
  return found == of_role->second.end() ? 0 : found->second;
}

std::string print_indexes(const std::set<int>& indexes) {
  std::string text;
  for (auto at = indexes.begin(); at != indexes.end();) {
    const int first = *at;
    int last = first;
    while (++at != indexes.end() && *at == last + 1) ++last;
    text += fmt::format("{}{}", text.empty() ? "" : ",", first);
    if (last > first) text += fmt::format("-{}", last);
  }
  return text;
}

std::set<int> parse_indexes(std::string_view text) {
  std::set<int> indexes;
  while (!text.empty()) {
    const auto part = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), part.size() + 1));
    const auto dash = part.find('-');
    const auto first = parse_integer(part.substr(0, dash));
    const auto last = dash == part.npos ? first : parse_integer(part.substr(dash + 1));
    if (!first || !last || *first < 0 || *last < *first || *last > kMostIndexes) continue;
    for (auto i = *first; i <= *last; ++i) indexes.insert(static_cast<int>(i));
  }
  return indexes;
}

json to_json(const Status& status) {
  json made = {{"observedGeneration", status.observed_generation},
               {"phase", status.phase},
               {"attempt", status.attempt},
               {"restarts", status.restarts},
               {"workers", status.workers},
               {"conditions", json::array()}};
  if (status.start_time) made["startTime"] = time_text(*status.start_time);
  if (status.completion_time) made["completionTime"] = time_text(*status.completion_time);
  if (status.step) made["step"] = *status.step;
  if (!status.last_error.empty()) made["lastError"] = status.last_error;
  if (!status.selector.empty()) made["selector"] = status.selector;
  if (status.first_failure) made["firstFailure"] = to_json(*status.first_failure);
  for (const Condition& condition : status.conditions) made["conditions"].push_back(to_json(condition));
  for (const auto& [role, counts] : status.replicas) {
    made["replicaStatuses"][std::string(name(role))] = {
        {"active", counts.active}, {"ready", counts.ready}, {"succeeded", counts.succeeded}, {"failed", counts.failed}};
  }
  for (const auto& [role, of_role] : status.replacements) {
    for (const auto& [index, times] : of_role)
      made["replacements"][std::string(name(role))][std::to_string(index)] = times;
  }
  for (const auto& [role, indexes] : status.completed) {
    if (!indexes.empty()) made["completedIndexes"][std::string(name(role))] = print_indexes(indexes);
  }
  drop_empty_texts(made);
  return made;
}

Status parse_status(const json& from) {
  Status status;
  if (!from.is_object()) return status;
  status.observed_generation = integer_at(from, "observedGeneration").value_or(0);
  status.phase = text_at(from, "phase");
  status.start_time = time_at(from, "startTime");
  status.completion_time = time_at(from, "completionTime");
  status.attempt = count_at(from, "attempt");
  status.restarts = count_at(from, "restarts");
  status.workers = count_at(from, "workers");
  status.step = integer_at(from, "step");
  status.last_error = text_at(from, "lastError");
  status.selector = text_at(from, "selector");
  if (const json& failure = object_at(from, "firstFailure"); !failure.empty())
    status.first_failure = parse_failure(failure);
  if (const auto conditions = from.find("conditions"); conditions != from.end() && conditions->is_array()) {
    for (const json& item : *conditions) {
      if (auto condition = parse_condition(item)) status.conditions.push_back(std::move(*condition));
    }
  }
  for (const auto& [key, counts] : object_at(from, "replicaStatuses").items()) {
    const auto role = parse_role(key);
    if (!role) continue;
    status.replicas[*role] = {count_at(counts, "active"), count_at(counts, "ready"), count_at(counts, "succeeded"),
                              count_at(counts, "failed")};
  }
  for (const auto& [key, of_role] : object_at(from, "replacements").items()) {
    const auto role = parse_role(key);
    if (!role || !of_role.is_object()) continue;
    for (const auto& [index, times] : of_role.items()) {
      const auto number = parse_integer(index);
      if (number && times.is_number_integer()) status.replacements[*role][static_cast<int>(*number)] = times.get<int>();
    }
  }
  for (const auto& [key, indexes] : object_at(from, "completedIndexes").items()) {
    const auto role = parse_role(key);
    if (role && indexes.is_string()) status.completed[*role] = parse_indexes(indexes.get<std::string>());
  }
  return status;
}

}  // namespace lockstep::kube
