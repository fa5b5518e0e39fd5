// JSON texts of the agents' store: node descriptions, heartbeats, the job's state, places and members of a round.
#include <lockstep/base/json_integer.h>
#include <lockstep/cluster/elastic/job_state.h>
#include <lockstep/cluster/elastic/json_text.h>
#include <lockstep/cluster/replace/job_service.h>

#include <algorithm>

namespace lockstep::cluster::elastic {

NLOHMANN_JSON_SERIALIZE_ENUM(
    Stage, {{Stage::waiting, "waiting"}, {Stage::running, "running"}, {Stage::ended, "ended"}, {Stage::left, "left"}})

std::string to_text(const NodeDescription& node) {
  nlohmann::json json = {{"host", node.host}, {"ranks", node.ranks}, {"holds_store", node.holds_store}};
  if (node.given_rank) json["given_rank"] = *node.given_rank;
  return to_json_text(json);
}

std::string to_text(const NodeReport& report) {
  return to_json_text({{"heartbeat", report.heartbeat},
                       {"stage", report.stage},
                       {"round", report.round},
                       {"failed", report.failed},
                       {"fatal", report.fatal},
                       {"heard", report.heard},
                       {"note", report.note}});
}

NodeDescription parse_description(std::string_view text) {
  return from_json_text(text, "the description of a node", [](const nlohmann::json& json) {
    NodeDescription node;
    json.at("host").get_to(node.host);
    json.at("ranks").get_to(node.ranks);
    json.at("holds_store").get_to(node.holds_store);
    if (json.contains("given_rank")) node.given_rank = integer_of<int>(json["given_rank"]);
    return node;
  });
}

NodeReport parse_report(std::string_view text) {
  return from_json_text(text, "the heartbeat of a node", [](const nlohmann::json& json) {
    NodeReport report;
    json.at("heartbeat").get_to(report.heartbeat);
    json.at("stage").get_to(report.stage);
    json.at("round").get_to(report.round);
    json.at("failed").get_to(report.failed);
    json.at("fatal").get_to(report.fatal);
    json.at("heard").get_to(report.heard);
    json.at("note").get_to(report.note);
    return report;
  });
}

NLOHMANN_JSON_SERIALIZE_ENUM(Phase,
                             {{Phase::gathering, "gathering"}, {Phase::running, "running"}, {Phase::closed, "closed"}})

bool is_replaced(const JobState& state, Ticket ticket) {
  return std::find(state.replaced.begin(), state.replaced.end(), ticket) != state.replaced.end();
}

bool is_refused(const JobState& state, Ticket ticket) {
  return std::find(state.refused.begin(), state.refused.end(), ticket) != state.refused.end();
}

namespace {

nlohmann::json json_of(const Death& death) {
  nlohmann::json json = {{"rank", death.rank}, {"signal", death.signal}, {"of_memory", death.of_memory}};
  if (death.step) json["step"] = *death.step;
  return json;
}

Death death_from(const nlohmann::json& json) {
  Death death{integer_of<int>(json.at("rank")), integer_of<int>(json.at("signal")), json.at("of_memory").get<bool>()};
  if (json.contains("step")) death.step = integer_of<std::int64_t>(json["step"]);
  return death;
}

}  // namespace

std::string to_text(const JobState& state) {
  nlohmann::json json = {{"phase", state.phase},
                         {"round", state.round},
                         {"restarts", state.restarts},
                         {"nodes", state.nodes},
                         {"ranks", state.ranks},
                         {"failed", state.failed},
                         {"exit_code", state.exit_code},
                         {"coordinator", state.coordinator},
                         {"formed_by", state.formed_by},
                         {"formed_at", state.formed_at},
                         {"why", state.why}};
  if (!state.replaced.empty()) json["replaced"] = state.replaced;
  if (!state.before.empty()) json["before"] = state.before;
  if (!state.refused.empty()) json["refused"] = state.refused;
  if (!state.refused_ranks.empty()) json["refused_ranks"] = state.refused_ranks;
  if (state.forgiven > 0) json["forgiven"] = state.forgiven;
  if (!state.awaits.empty()) json["awaits"] = state.awaits;
  if (state.death) json["death"] = json_of(*state.death);
  if (state.first_failed) json["first_failed"] = *state.first_failed;
  return to_json_text(json);
}

std::string to_text(const NodePlace& node_place) {
  return to_json_text({{"node", node_place.node}, {"first_rank", node_place.first_rank}});
}

std::string to_text(const std::vector<Ticket>& members) { return to_json_text(members); }

JobState parse_state(std::string_view text) {
  return from_json_text(text, "the state of a job", [](const nlohmann::json& json) {
    JobState state;
    json.at("phase").get_to(state.phase);
    json.at("round").get_to(state.round);
    json.at("restarts").get_to(state.restarts);
    json.at("nodes").get_to(state.nodes);
    json.at("ranks").get_to(state.ranks);
    json.at("failed").get_to(state.failed);
    json.at("exit_code").get_to(state.exit_code);
    if (json.contains("first_failed")) state.first_failed = integer_of<int>(json["first_failed"]);
    if (json.contains("replaced")) json["replaced"].get_to(state.replaced);
    if (json.contains("awaits")) json["awaits"].get_to(state.awaits);
    if (json.contains("death")) state.death = death_from(json["death"]);
    if (json.contains("before")) json["before"].get_to(state.before);
    if (json.contains("refused")) json["refused"].get_to(state.refused);
    if (json.contains("refused_ranks")) json["refused_ranks"].get_to(state.refused_ranks);
    if (json.contains("forgiven")) state.forgiven = integer_of<int>(json["forgiven"]);
    json.at("coordinator").get_to(state.coordinator);
    json.at("formed_by").get_to(state.formed_by);
    json.at("formed_at").get_to(state.formed_at);
    json.at("why").get_to(state.why);
    return state;
  });
}

NodePlace parse_node_place(std::string_view text) {
  return from_json_text(text, "a node's place", [](const nlohmann::json& json) {
    return NodePlace{integer_of<int>(json.at("node")), integer_of<int>(json.at("first_rank"))};
  });
}

std::optional<std::vector<int>> parse_lost_ranks(std::string_view log) {
  const auto begin = log.rfind(kLostRanks);
  if (begin == std::string_view::npos) return std::nullopt;
  const auto line = log.substr(begin + kLostRanks.size());
  return from_json_text(line.substr(0, line.find('\n')), "the lost ranks of a round",
                        [](const nlohmann::json& json) { return json.get<std::vector<int>>(); });
}

std::vector<Ticket> parse_members(std::string_view text) {
  return from_json_text(text, "the nodes of a round",
                        [](const nlohmann::json& json) { return json.get<std::vector<Ticket>>(); });
}

std::string to_text(const Place& place) {
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
  return to_json_text(json);
}

Place parse_place(std::string_view text) {
  return from_json_text(text, "the address of the rendezvous", [](const nlohmann::json& json) {
    Place place{json.at("host").get<std::string>(), integer_of<std::uint16_t>(json.at("port"))};
    if (json.contains("own_store")) {
      const auto& own = json.at("own_store");
      place.own_store = {own.at("place").get<std::string>(), own.at("secret").get<std::string>()};
    }
    if (json.contains("service")) {
      const auto& service = json.at("service");
      place.service =
          ServiceAddress{service.at("host").get<std::string>(), integer_of<std::uint16_t>(service.at("port")),
                         service.at("secret").get<std::string>(), service.at("encrypted").get<bool>()};
    }
    return place;
  });
}

}  // namespace lockstep::cluster::elastic
