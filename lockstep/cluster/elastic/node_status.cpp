// The status document of launchers and their jobs as JSON, and its table.
#include <lockstep/base/error.h>
#include <lockstep/base/json.h>
#include <lockstep/cluster/elastic/job_json.h>
#include <lockstep/cluster/elastic/node_service.h>
#include <lockstep/membership/service/status.h>

#include <fmt/format.h>

#include <algorithm>

namespace lockstep::cluster::elastic {
namespace {

using membership::cell;
using membership::seconds_of;
using nlohmann::json;

constexpr const char* kService = "launchers";

const char* name_of(Phase phase) {
  switch (phase) {
    case Phase::gathering: return "gathering";
    case Phase::running: return "running";
    case Phase::closed: return "closed";
  }
  return "";
}

const char* state_of(const NodeJob& job, const NodeMember& node, Time now) {
  if (node.report.stage == Stage::left) return "left";
  if (now - node.heard >= job.policy.heartbeat_limit) return "lost";
  switch (node.report.stage) {
    case Stage::running: return "running";
    case Stage::ended: return "finished";
    default: return "waiting";
  }
}

/// What the job cannot go on without, and since when; null: nothing.
void add_awaited(json& value, const NodeJob& job, Time now) {
  value["awaited"] = value["awaited_s"] = nullptr;
  if (job.state.phase == Phase::running && !job.state.awaits.empty()) {
    value["awaited"] = job.state.awaits;
    if (job.lost_since) value["awaited_s"] = seconds_of(now - *job.lost_since);
  }
  if (job.state.phase != Phase::gathering) return;
  const auto there = std::count_if(job.nodes.begin(), job.nodes.end(), [&](const auto& item) {
    return std::string_view(state_of(job, item.second, now)) == "waiting";
  });
  value["awaited"] = there < job.policy.min_nodes
                         ? fmt::format("at least {} nodes, of which {} are there", job.policy.min_nodes, there)
                         : std::string("the ranks of the last round to end, or more nodes (last_call_timeout)");
  if (job.gathering_since) value["awaited_s"] = seconds_of(now - *job.gathering_since);
}

json describe_node(const NodeJob& job, Ticket ticket, const NodeMember& node, Time now) {
  const auto member = std::find(job.members.begin(), job.members.end(), ticket);
  const bool has_place = job.state.phase == Phase::running && member != job.members.end();
  return {{"ticket", ticket},
          {"host", node.description.host},
          {"node", has_place ? json(member - job.members.begin()) : json(nullptr)},
          {"ranks", node.description.ranks},
          {"state", state_of(job, node, now)},
          {"connected", node.connection != 0},
          {"silent_s", std::max(0.0, seconds_of(now - node.heard))}};
}

json describe_job(const NodeJob& job, Time now) {
  json launchers = json::array();
  for (const auto& [ticket, node] : job.nodes) launchers.push_back(describe_node(job, ticket, node, now));
  json value = {{"job", job.name},
                {"state", name_of(job.state.phase)},
                {"round", job.state.round},
                {"nodes", job.state.nodes},
                {"ranks", job.state.ranks},
                {"restarts", job.state.restarts},
                {"max_restarts", job.policy.max_restarts},
                {"replaced", job.replaced},
                {"exit_code", job.state.phase == Phase::closed ? json(job.state.exit_code) : json(nullptr)},
                {"first_failed", job.state.first_failed ? json(*job.state.first_failed) : json(nullptr)},
                {"launchers", std::move(launchers)},
                {"decisions", membership::describe_decisions(job.decisions, now)}};
  add_awaited(value, job, now);
  return value;
}

std::string table_of(const json& job) {
  std::string text = fmt::format("job {}: {}, round {}, {} node(s), {} rank(s), {} of {} restart(s), {} replaced\n",
                                 cell(job.at("job")), cell(job.at("state")), cell(job.at("round")),
                                 cell(job.at("nodes")), cell(job.at("ranks")), cell(job.at("restarts")),
                                 cell(job.at("max_restarts")), cell(job.at("replaced")));
  if (!job.at("first_failed").is_null()) text += fmt::format("rank {} failed first\n", cell(job.at("first_failed")));
  text += fmt::format("{:>5}  {:<9} {:>6} {:>8}  {}\n", "node", "state", "ranks", "silent s", "host");
  for (const json& launcher : job.at("launchers")) {
    text += fmt::format("{:>5}  {:<9} {:>6} {:>8.1f}  {}\n", cell(launcher.at("node")), cell(launcher.at("state")),
                        cell(launcher.at("ranks")), launcher.at("silent_s").get<double>(), cell(launcher.at("host")));
  }
  return text + membership::last_lines(job);
}

}  // namespace

std::string status_json(const NodeServiceState& service, const std::string& version, Time started, Time now) {
  json jobs = json::array();
  for (const auto& [name, job] : service.jobs) jobs.push_back(describe_job(job, now));
  const json status = {{"schema", 1},
                       {"service", kService},
                       {"version", version},
                       {"uptime_s", seconds_of(now - started)},
                       {"jobs", std::move(jobs)}};
  return status.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

bool is_of_launchers(const std::string& text) {
  const auto value = json::parse(text, nullptr, false);
  return value.is_object() && value.contains("service") && value["service"] == kService;
}

std::string status_table(const std::string& text) {
  try {
    std::string table;
    const json status = json::parse(text);
    for (const json& job : status.at("jobs")) table += table_of(job);
    return table.empty() ? "the service has no job yet\n" : table;
  } catch (const json::exception& error) {
    fail(ErrorKind::data, "status", "the answer is not the status of launchers of this version: {}",
         json_mistake(error));
  }
}

}  // namespace lockstep::cluster::elastic
