// The status document as JSON, its request over HTTP, its table, and stragglers by the median of the others.
#include <lockstep/base/error.h>
#include <lockstep/base/json.h>
#include <lockstep/membership/membership.h>
#include <lockstep/membership/messages.h>
#include <lockstep/membership/service/status.h>
#include <lockstep/net/http_client.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace lockstep::membership {
namespace {

using std::chrono::microseconds;

constexpr microseconds kWorthALook{5000};

// The median of at least two sorted values without the one at `which`; of an even number, the lower middle one.
microseconds median_without(const std::vector<microseconds>& sorted, std::size_t which) {
  const std::size_t middle = (sorted.size() - 2) / 2;
  return sorted[middle < which ? middle : middle + 1];
}

bool holds_up(const StepTime& time, microseconds usual) {
  const auto more = time.own - usual;
  return more >= usual / 2 && more >= kWorthALook && more >= time.whole / 10;
}

using nlohmann::json;

const char* state_of_worker(const Member& member) {
  switch (member.phase) {
    case Phase::finished: return "finished";
    case Phase::failed: return "failed";
    default: break;
  }
  if (member.link != Link::open) return "lost";
  return member.phase == Phase::waiting ? "waiting" : "running";
}

template <typename T>
json value_or_null(const std::optional<T>& value) {
  return value ? json(*value) : json(nullptr);
}

json in_ms(const std::optional<StepTime>& time, std::chrono::microseconds StepTime::*part) {
  return time ? json(static_cast<double>(((*time).*part).count()) / 1000) : json(nullptr);
}

// The step time of a worker that is computing; that of another worker is out of date.
std::optional<StepTime> time_now(const Member& member) {
  return member.phase == Phase::running && member.link == Link::open ? member.step_time : std::nullopt;
}

// Workers and servers have ranks of their own, from 0.
json describe_member(const Member& member, int workers, bool straggles, Time now) {
  auto rank = member.rank;
  if (rank && member.server) *rank -= workers;
  return {{"node_id", member.node_id},
          {"rank", value_or_null(rank)},
          {"state", state_of_worker(member)},
          {"host", member.host},
          {"address", member.address},
          {"pid", member.pid},
          {"step", value_or_null(member.step)},
          {"step_ms", in_ms(time_now(member), &StepTime::whole)},
          {"own_ms", in_ms(time_now(member), &StepTime::own)},
          {"straggler", straggles},
          {"restarts", member.restarts},
          {"silent_s", seconds_of(now - member.heard)},
          {"last_error", member.last_error.empty() ? json(nullptr) : json(member.last_error)}};
}

// A time as text; "-" where an older scheduler does not report it.
std::string milliseconds(const json& worker, const char* field) {
  const auto found = worker.find(field);
  return found == worker.end() || found->is_null() ? "-" : fmt::format("{:.1f}", found->get<double>());
}

void add_lines(std::string& text, const json& members) {
  for (const json& worker : members) {
    text += fmt::format("{:>5}  {:<9} {:>8} {:>9} {:>9} {:>8} {:>8.1f}  {:<20} {}\n", cell(worker.at("rank")),
                        cell(worker.at("state")), cell(worker.at("step")), milliseconds(worker, "step_ms"),
                        milliseconds(worker, "own_ms"), cell(worker.at("restarts")),
                        worker.at("silent_s").get<double>(), cell(worker.at("host")), cell(worker.at("node_id")));
    if (worker.value("straggler", false)) text += "       straggler: the others wait for it\n";
    if (worker.at("last_error").is_null()) continue;
    const bool well = worker.at("state") == "running" || worker.at("state") == "finished";
    text += fmt::format("       {}{}\n", well ? "restarted after: " : "", cell(worker.at("last_error")));
  }
}

std::string table_of(const json& status) {
  const json servers = status.value("servers", json::array());  // an older scheduler reports none
  std::string text = fmt::format(
      "job {}: {}, generation {}, {} of {} {}, step {}, {} restart(s), recovery {}, TLS {}\n", cell(status.at("job")),
      cell(status.at("state")), cell(status.at("generation")), cell(status.at("present")), cell(status.at("wanted")),
      servers.empty() ? "workers" : fmt::format("processes ({} of them servers)", status.at("server_num").get<int>()),
      cell(status.at("step")), cell(status.at("restarts")), status.at("recovery").get<bool>() ? "on" : "off",
      status.at("secured").get<bool>() ? "on" : "off");
  if (!status.at("last_error").is_null()) text += fmt::format("last error: {}\n", cell(status.at("last_error")));
  if (!status.at("workers").empty()) {
    text += fmt::format("{:>5}  {:<9} {:>8} {:>9} {:>9} {:>8} {:>8}  {:<20} {}\n", "rank", "state", "step", "step ms",
                        "own ms", "restarts", "silent s", "host", "node id");
  }
  add_lines(text, status.at("workers"));
  if (!servers.empty()) text += "parameter servers:\n";
  add_lines(text, servers);
  return text + last_lines(status);
}

constexpr std::chrono::seconds kLimit(10);
constexpr std::size_t kLongestStatus = std::size_t{64} * 1024 * 1024;

net::HttpResponse ask(net::HttpClient& client) {
  try {
    return client.get("/v1/status", std::chrono::steady_clock::now() + kLimit);
  } catch (const Error& error) {
    throw Error(error.kind() == ErrorKind::timeout ? ErrorKind::timeout : ErrorKind::io, "status",
                fmt::format("no answer at {}: {}", client.server().text(), error.message()));
  }
}

}  // namespace

double seconds_of(std::chrono::steady_clock::duration duration) {
  return static_cast<double>(std::chrono::duration_cast<std::chrono::milliseconds>(duration).count()) / 1000;
}

json describe_decisions(const std::deque<LoggedDecision>& decisions, Time now) {
  json list = json::array();
  for (const auto& decision : decisions) {
    list.push_back({{"seconds_ago", seconds_of(now - decision.at)}, {"text", decision.text}});
  }
  return list;
}

std::string cell(const json& value) {
  if (value.is_null()) return "-";
  return value.is_string() ? value.get<std::string>() : value.dump();
}

std::string last_lines(const json& status) {
  std::string text;
  if (const auto awaited = status.find("awaited"); awaited != status.end() && !awaited->is_null()) {
    const auto since = status.find("awaited_s");
    const bool is_known = since != status.end() && !since->is_null();
    text += fmt::format("awaited for {:.0f} s: {}\n", is_known ? since->get<double>() : 0.0, cell(*awaited));
  }
  const auto decisions = status.value("decisions", json::array());
  if (!decisions.empty()) text += "last decisions:\n";
  for (const json& decision : decisions) {
    text += fmt::format("{:>8.0f} s ago  {}\n", decision.at("seconds_ago").get<double>(), cell(decision.at("text")));
  }
  return text;
}

std::vector<bool> find_stragglers(const std::vector<std::optional<StepTime>>& workers) {
  std::vector<bool> found(workers.size(), false);
  std::vector<microseconds> own;
  for (const auto& time : workers) {
    if (time) own.push_back(time->own);
  }
  if (own.size() < 2) return found;
  std::sort(own.begin(), own.end());
  for (std::size_t i = 0; i < workers.size(); ++i) {
    if (!workers[i]) continue;
    const auto place = std::lower_bound(own.begin(), own.end(), workers[i]->own) - own.begin();
    found[i] = holds_up(*workers[i], median_without(own, static_cast<std::size_t>(place)));
  }
  return found;
}

std::string status_json(const Membership& membership, const StatusFacts& facts, Time now) {
  std::vector<const Member*> members;
  members.reserve(membership.members.size());
  for (const Member& member : membership.members) members.push_back(&member);
  std::stable_sort(members.begin(), members.end(), [](const Member* a, const Member* b) {
    return a->rank.value_or(kMostWorkers) < b->rank.value_or(kMostWorkers);
  });
  json workers = json::array(), servers = json::array();
  std::vector<std::optional<StepTime>> times;
  times.reserve(members.size());
  for (const Member* member : members) times.push_back(member->server ? std::nullopt : time_now(*member));
  const auto stragglers = find_stragglers(times);
  std::optional<std::int64_t> least_step;
  int restarts = 0;
  for (std::size_t i = 0; i < members.size(); ++i) {
    const Member* member = members[i];
    auto& list = member->server ? servers : workers;
    list.push_back(describe_member(*member, membership.wanted - membership.servers, stragglers[i], now));
    restarts += member->restarts;
    if (member->step) least_step = std::min(least_step.value_or(*member->step), *member->step);
  }
  const std::string awaited = describe_awaited(membership);
  const json status = {{"schema", 1},
                       {"version", facts.version},
                       {"job", membership.job},
                       {"state", name(state_of(membership))},
                       {"generation", membership.generation},
                       {"wanted", membership.wanted},
                       {"present", count_present(membership)},
                       {"step", value_or_null(least_step)},
                       {"restarts", restarts},
                       {"last_error", membership.last_error.empty() ? json(nullptr) : json(membership.last_error)},
                       {"recovery", membership.recovery},
                       {"saves_state", facts.saves},
                       {"secured", facts.secured},
                       {"uptime_s", seconds_of(now - facts.started)},
                       {"awaited", awaited.empty() ? json(nullptr) : json(awaited)},
                       {"awaited_s", awaited.empty() ? json(nullptr) : json(seconds_of(now - membership.changed))},
                       {"decisions", describe_decisions(facts.decisions, now)},
                       {"server_num", membership.servers},
                       {"workers", std::move(workers)},
                       {"servers", std::move(servers)}};
  return status.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

std::string status_table(const std::string& text) {
  try {
    return table_of(json::parse(text));
  } catch (const json::exception& error) {
    fail(ErrorKind::data, "status", "the answer is not the status of a scheduler of this version: {}",
         json_mistake(error));
  }
}

std::string fetch_status(const std::string& host, std::uint16_t port,
                         const std::shared_ptr<boost::asio::ssl::context>& tls) {
  net::HttpClient client({host, port}, tls, kLongestStatus);
  net::HttpResponse response = ask(client);
  if (response.status != 200) {
    fail(ErrorKind::io, "status", "the server at {} is not the service of a job: it answered with HTTP status {}",
         client.server().text(), response.status);
  }
  return std::move(response.body);
}

}  // namespace lockstep::membership
