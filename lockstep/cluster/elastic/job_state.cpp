#include <lockstep/base/json_integer.h>
#include <lockstep/cluster/elastic/job_state.h>
#include <lockstep/cluster/elastic/json_text.h>

namespace lockstep::cluster::elastic {

NLOHMANN_JSON_SERIALIZE_ENUM(Phase,
                             {{Phase::gathering, "gathering"}, {Phase::running, "running"}, {Phase::closed, "closed"}})

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

std::vector<Ticket> parse_members(std::string_view text) {
  return from_json_text(text, "the nodes of a round",
                        [](const nlohmann::json& json) { return json.get<std::vector<Ticket>>(); });
}

}  // namespace lockstep::cluster::elastic
