// The text of an elastic job, from which another service continues it.
#include <lockstep/base/error.h>
#include <lockstep/base/json.h>
#include <lockstep/base/text.h>
#include <lockstep/cluster/elastic/job_json.h>
#include <lockstep/cluster/elastic/node_service.h>

namespace lockstep::cluster::elastic {
namespace {

using nlohmann::json;

constexpr int kFormat = 2;

json json_of(const NodeMember& node) {
  json value = {{"node", elastic::json_of(node.description)},
                {"life", node.life},
                {"report", elastic::json_of(node.report)},
                {"wishes", node.answer.number},
                {"granted", node.answer.granted}};
  if (node.ended) value["ended"] = {{"round", node.ended->round}, {"ends", elastic::json_of(node.ended->ends)}};
  return value;
}

NodeMember node_from(const json& value, Time heard) {
  NodeMember node;
  node.description = description_from(value.at("node"));
  value.at("life").get_to(node.life);
  node.report = report_from(value.at("report"));
  node.answer = {integer_of<std::int64_t>(value.at("wishes")), value.at("granted").get<bool>()};
  node.heard = heard;
  if (!value.contains("ended")) return node;
  const json& ended = value["ended"];
  node.ended = RanksEnded{integer_of<int>(ended.at("round")), ends_from(ended.at("ends"))};
  return node;
}

NodeJob job_from(const json& value, Time now) {
  NodeJob job;
  if (integer_of<int>(value.at("format")) != kFormat) fail(ErrorKind::data, "rendezvous", "it has another format");
  value.at("name").get_to(job.name);
  value.at("service").get_to(job.service);
  job.policy = policy_from(value.at("policy"));
  job.state = state_from(value.at("state"));
  job.arrivals = integer_of<Ticket>(value.at("arrivals"));
  job.replaced = integer_of<int>(value.at("replaced"));
  value.at("repeated").get_to(job.repeated);
  job.losses = rank_losses_from(value.at("losses"));
  if (value.contains("meeting")) job.meeting = place_from(value["meeting"]);
  for (const json& member : value.at("members")) job.members.push_back(integer_of<Ticket>(member));
  for (const json& report : value.at("reports")) {
    job.reports[integer_of<int>(report.at("round"))] = report.at("text").get<std::string>();
  }
  // Launchers notice the loss of the service that they had within half of the limit, and need time to find this one.
  const auto until = now + job.policy.heartbeat_limit;
  for (const json& node : value.at("nodes")) job.nodes[integer_of<Ticket>(node.at("ticket"))] = node_from(node, until);
  for (const Ticket member : job.members) {
    if (!job.nodes.contains(member)) fail(ErrorKind::data, "rendezvous", "its round has a node that it lacks");
  }
  return job;
}

}  // namespace

std::string print_job(const NodeJob& job) {
  json value = {{"format", kFormat},
                {"name", job.name},
                {"service", job.service},
                {"policy", elastic::json_of(job.policy)},
                {"state", elastic::json_of(job.state)},
                {"members", job.members},
                {"arrivals", job.arrivals},
                {"replaced", job.replaced},
                {"repeated", job.repeated},
                {"losses", json_of(job.losses)},
                {"reports", json::array()},
                {"nodes", json::array()}};
  if (job.meeting) value["meeting"] = elastic::json_of(*job.meeting);
  for (const auto& [round, text] : job.reports) value["reports"].push_back({{"round", round}, {"text", text}});
  for (const auto& [ticket, node] : job.nodes) {
    json each = json_of(node);
    each["ticket"] = ticket;
    value["nodes"].push_back(std::move(each));
  }
  return text_of(value);
}

NodeJob read_job(std::string_view text, Time now) {
  try {
    return job_from(json::parse(text), now);
  } catch (const json::exception& error) {
    fail(ErrorKind::data, "rendezvous", "'{}' is not the state of a job ({})", cut_text(text), error.what());
  }
}

}  // namespace lockstep::cluster::elastic
