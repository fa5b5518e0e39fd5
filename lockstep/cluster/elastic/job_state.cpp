// JSON of what launchers report, of the job's state, of the places in a round, and of lost ranks.
#include <lockstep/base/error.h>
#include <lockstep/base/json.h>
#include <lockstep/cluster/elastic/job_json.h>

#include <algorithm>

namespace lockstep::cluster::elastic {

NLOHMANN_JSON_SERIALIZE_ENUM(
    Stage, {{Stage::waiting, "waiting"}, {Stage::running, "running"}, {Stage::ended, "ended"}, {Stage::left, "left"}})
NLOHMANN_JSON_SERIALIZE_ENUM(Phase,
                             {{Phase::gathering, "gathering"}, {Phase::running, "running"}, {Phase::closed, "closed"}})

namespace {

/// The value of a field that may be absent.
template <typename Int>
std::optional<Int> maybe(const nlohmann::json& json, const char* key) {
  return json.contains(key) ? std::optional(integer_of<Int>(json[key])) : std::nullopt;
}

template <typename Int>
std::vector<Int> integers(const nlohmann::json& json, const char* key) {
  std::vector<Int> values;
  if (!json.contains(key)) return values;
  for (const auto& value : json[key]) values.push_back(integer_of<Int>(value));
  return values;
}

std::chrono::milliseconds duration(const nlohmann::json& json, const char* key) {
  return std::chrono::milliseconds(integer_of<std::int64_t>(json.at(key)));
}

nlohmann::json json_of(const Death& death) {
  nlohmann::json json = {{"rank", death.rank}, {"signal", death.signal}, {"of_memory", death.of_memory}};
  if (death.step) json["step"] = *death.step;
  return json;
}

Death death_from(const nlohmann::json& json) {
  return {integer_of<int>(json.at("rank")), integer_of<int>(json.at("signal")), json.at("of_memory").get<bool>(),
          maybe<std::int64_t>(json, "step")};
}

}  // namespace

nlohmann::json json_of(const NodeDescription& node) {
  nlohmann::json json = {{"host", node.host}, {"ranks", node.ranks}, {"runs_service", node.runs_service}};
  if (node.given_rank) json["given_rank"] = *node.given_rank;
  return json;
}

NodeDescription description_from(const nlohmann::json& json) {
  return {json.at("host").get<std::string>(), integer_of<int>(json.at("ranks")), json.at("runs_service").get<bool>(),
          maybe<int>(json, "given_rank")};
}

nlohmann::json json_of(const Policy& policy) {
  return {{"min_nodes", policy.min_nodes},
          {"max_nodes", policy.max_nodes},
          {"max_restarts", policy.max_restarts},
          {"max_replacements", policy.max_replacements},
          {"ranks_given", policy.ranks_given},
          {"join_timeout_ms", policy.join_timeout.count()},
          {"last_call_ms", policy.last_call.count()},
          {"replace_timeout_ms", policy.replace_timeout.count()},
          {"heartbeat_limit_ms", policy.heartbeat_limit.count()}};
}

Policy policy_from(const nlohmann::json& json) {
  Policy policy;
  policy.min_nodes = integer_of<int>(json.at("min_nodes"));
  policy.max_nodes = integer_of<int>(json.at("max_nodes"));
  policy.max_restarts = integer_of<int>(json.at("max_restarts"));
  policy.max_replacements = integer_of<int>(json.at("max_replacements"));
  json.at("ranks_given").get_to(policy.ranks_given);
  policy.join_timeout = duration(json, "join_timeout_ms");
  policy.last_call = duration(json, "last_call_ms");
  policy.replace_timeout = duration(json, "replace_timeout_ms");
  policy.heartbeat_limit = duration(json, "heartbeat_limit_ms");
  return policy;
}

nlohmann::json json_of(const NodeReport& report) {
  return {{"stage", report.stage},
          {"round", report.round},
          {"failed", report.failed},
          {"fatal", report.fatal},
          {"note", report.note}};
}

NodeReport report_from(const nlohmann::json& json) {
  NodeReport report;
  json.at("stage").get_to(report.stage);
  report.round = integer_of<int>(json.at("round"));
  json.at("failed").get_to(report.failed);
  json.at("fatal").get_to(report.fatal);
  json.at("note").get_to(report.note);
  return report;
}

nlohmann::json json_of(const JobState& state) {
  nlohmann::json json = {{"phase", state.phase},         {"round", state.round}, {"restarts", state.restarts},
                         {"nodes", state.nodes},         {"ranks", state.ranks}, {"failed", state.failed},
                         {"exit_code", state.exit_code}, {"why", state.why}};
  if (!state.replaced.empty()) json["replaced"] = state.replaced;
  if (!state.before.empty()) json["before"] = state.before;
  if (!state.refused.empty()) json["refused"] = state.refused;
  if (!state.refused_ranks.empty()) json["refused_ranks"] = state.refused_ranks;
  if (state.forgiven > 0) json["forgiven"] = state.forgiven;
  if (!state.awaits.empty()) json["awaits"] = state.awaits;
  if (state.death) json["death"] = json_of(*state.death);
  if (state.first_failed) json["first_failed"] = *state.first_failed;
  return json;
}

JobState state_from(const nlohmann::json& json) {
  JobState state;
  json.at("phase").get_to(state.phase);
  state.round = integer_of<int>(json.at("round"));
  state.restarts = integer_of<int>(json.at("restarts"));
  state.nodes = integer_of<int>(json.at("nodes"));
  state.ranks = integer_of<int>(json.at("ranks"));
  json.at("failed").get_to(state.failed);
  state.exit_code = integer_of<int>(json.at("exit_code"));
  state.first_failed = maybe<int>(json, "first_failed");
  state.replaced = integers<Ticket>(json, "replaced");
  state.before = integers<Ticket>(json, "before");
  state.refused = integers<Ticket>(json, "refused");
  state.refused_ranks = integers<int>(json, "refused_ranks");
  state.forgiven = maybe<int>(json, "forgiven").value_or(0);
  if (json.contains("awaits")) json["awaits"].get_to(state.awaits);
  if (json.contains("death")) state.death = death_from(json["death"]);
  json.at("why").get_to(state.why);
  return state;
}

nlohmann::json json_of(const NodePlace& node_place) {
  return {{"node", node_place.node}, {"first_rank", node_place.first_rank}};
}

NodePlace node_place_from(const nlohmann::json& json) {
  return {integer_of<int>(json.at("node")), integer_of<int>(json.at("first_rank"))};
}

nlohmann::json json_of(const Place& place) {
  nlohmann::json json{{"host", place.host}, {"port", place.port}};
  if (const auto& own = place.own_store; !own.place.empty()) {
    json["own_store"] = {{"place", own.place}, {"secret", own.secret}};
  }
  if (const auto& service = place.service) {
    json["service"] = {{"host", service->host},
                       {"port", service->port},
                       {"secret", service->secret},
                       {"encrypted", service->encrypted}};
  }
  return json;
}

Place place_from(const nlohmann::json& json) {
  Place place{json.at("host").get<std::string>(), integer_of<std::uint16_t>(json.at("port"))};
  if (json.contains("own_store")) {
    const auto& own = json.at("own_store");
    place.own_store = {own.at("place").get<std::string>(), own.at("secret").get<std::string>()};
  }
  if (json.contains("service")) {
    const auto& service = json.at("service");
    place.service = ServiceAddress{service.at("host").get<std::string>(), integer_of<std::uint16_t>(service.at("port")),
                                   service.at("secret").get<std::string>(), service.at("encrypted").get<bool>()};
  }
  return place;
}

std::string text_of(const nlohmann::json& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

bool is_replaced(const JobState& state, Ticket ticket) {
  return std::find(state.replaced.begin(), state.replaced.end(), ticket) != state.replaced.end();
}

bool is_refused(const JobState& state, Ticket ticket) {
  return std::find(state.refused.begin(), state.refused.end(), ticket) != state.refused.end();
}

}  // namespace lockstep::cluster::elastic

namespace lockstep::cluster {

nlohmann::json json_of(const RankLosses& losses) {
  nlohmann::json object = {{"processes", losses.processes}, {"completed", losses.completed}};
  if (losses.ranks) object["ranks"] = *losses.ranks;
  return object;
}

RankLosses rank_losses_from(const nlohmann::json& json) {
  RankLosses losses;
  for (const auto& each : json.at("processes"))
    losses.processes.emplace(integer_of<int>(each.at(0)), integer_of<std::int64_t>(each.at(1)));
  losses.completed = integer_of<int>(json.at("completed"));
  if (json.contains("ranks")) losses.ranks = elastic::integers<int>(json, "ranks");
  return losses;
}

}  // namespace lockstep::cluster
