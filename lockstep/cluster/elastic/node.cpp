#include <lockstep/base/json_integer.h>
#include <lockstep/cluster/elastic/json_text.h>
#include <lockstep/cluster/elastic/node.h>

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

}  // namespace lockstep::cluster::elastic
