#include <lockstep/base/error.h>
#include <lockstep/comm/doctor/among_ranks.h>
#include <lockstep/comm/doctor/own_facts.h>
#include <lockstep/doctor/checks.h>
#include <lockstep/doctor/facts_json.h>
#include <lockstep/doctor/links.h>
#include <lockstep/doctor/probe.h>
#include <lockstep/doctor/probe_server.h>
#include <lockstep/world/host_addresses.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

namespace lockstep::doctor {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr auto kLinkLimit = seconds(5);
constexpr auto kNamesLimit = seconds(5);
constexpr auto kMoment = seconds(3);  // more than rank 0 has, which finds out at its own deadline who is missing

// Only hosts of a job with others have somebody to answer.
std::unique_ptr<ProbeServer> make_probe_server(Facts& mine) {
  if (mine.address.empty()) return nullptr;
  try {
    auto probe_server = std::make_unique<ProbeServer>(mine.address, mine.rank, mine.identity);
    mine.probe_server = probe_server->port();
    return probe_server;
  } catch (const Error& error) {
    mine.problem = error.message();
    return nullptr;
  }
}

// Rank 0 collects what all know and publishes the first rank of each host, so that the number of requests grows
// linearly with that of ranks.
Job collect_facts(Notes& notes, const Request& request, const Gathering& gathering) {
  const WaitLimit wait_limit(request.wait, request.stop);
  Job job;
  job.size = request.world.size;
  job.master = master_of(request.world);
  for (int rank = 0; rank < job.size; ++rank) {
    const bool absent = std::ranges::find(gathering.absent, rank) != gathering.absent.end();
    const auto facts = absent ? std::nullopt : notes.take("facts", rank, wait_limit);
    if (facts) {
      job.ranks.push_back(facts->get<Facts>());
    } else if (absent || gathering.all_are_asked) {
      job.missing.push_back(rank);
    }
  }
  gathering.closed();
  auto hosts = nlohmann::json::array();
  for (const Facts* host : hosts_of(job)) hosts.push_back(nlohmann::json(*host));
  notes.put("hosts", 0, hosts);
  return job;
}

Job read_hosts(Notes& notes, const Request& request) {
  const auto hosts = notes.take("hosts", 0, WaitLimit(request.wait + kMoment, request.stop));
  if (!hosts) {
    fail(ErrorKind::timeout, "doctor", "the store answers, but rank 0 collected no facts within {} s",
         request.wait.count() / 1000);
  }
  Job job;
  job.size = request.world.size;
  hosts->get_to(job.ranks);
  return job;
}

// What the first rank of each host finds out about the others.
nlohmann::json look_around(const Job& job, const Facts& mine, const std::stop_token& stop) {
  std::vector<const Facts*> others;
  std::vector<NameSeen> names;
  const WaitLimit wait_limit(kNamesLimit, stop);
  for (const Facts* host : hosts_of(job)) {
    for (const Name& name : host->names) {
      const bool known = std::ranges::any_of(names, [&](const NameSeen& seen) { return seen.name.name == name.name; });
      if (!known && name.name != "localhost" && !wait_limit.over()) {
        names.push_back({mine.rank, probe_name(name.name, wait_limit)});
      }
    }
    // A host without an address, or with one that means oneself, is a finding already.
    const bool is_itself = is_loopback_address(host->address) && host->network != mine.network;
    if (host->rank != mine.rank && host->probe_server != 0 && !is_itself) others.push_back(host);
  }
  return {{"links", try_links(mine.rank, others, kLinkLimit, stop)}, {"names", names}};
}

void collect_views(Notes& notes, Job& job, const Request& request) {
  const WaitLimit wait_limit(request.wait + kLinkLimit + kNamesLimit, request.stop);
  for (const Facts* host : hosts_of(job)) {
    const auto view = notes.take("view", host->rank, wait_limit);
    if (!view) {
      job.missing.push_back(host->rank);
      continue;
    }
    for (const auto& link : view->at("links")) job.links.push_back(link.get<Link>());
    for (const auto& seen : view->at("names")) job.names.push_back(seen.get<NameSeen>());
  }
}

// The store may live in this process: it stays until the others have read the verdict.
void wait_for_readers(Notes& notes, const Job& job, const std::stop_token& stop) {
  const WaitLimit wait_limit(seconds(2), stop);
  for (const Facts& facts : job.ranks) {
    if (facts.rank != 0 && !notes.take("read", facts.rank, wait_limit)) return;
  }
}

Consultation conclude(Notes& notes, Job job, const Request& request) {
  collect_views(notes, job, request);
  Consultation done;
  done.findings = examine(job);
  done.sound = count(done.findings, Severity::error) == 0;
  notes.put("verdict", 0, {{"sound", done.sound}});
  wait_for_readers(notes, job, request.stop);
  done.job = std::move(job);
  return done;
}

Consultation hear(Notes& notes, Job job, const Request& request) {
  const auto wait = 2 * request.wait + kLinkLimit + kNamesLimit + kMoment;
  const auto verdict = notes.take("verdict", 0, WaitLimit(wait, request.stop));
  if (!verdict) fail(ErrorKind::timeout, "doctor", "rank 0 did not say what it concluded");
  notes.put("read", request.world.rank, true);
  Consultation done;
  done.job = std::move(job);
  done.speaks = false;
  done.sound = verdict->at("sound").get<bool>();
  return done;
}

}  // namespace

Consultation among_ranks(Notes& notes, Facts mine, const Request& request, const Gathering& gathering) {
  const int rank = mine.rank;
  const auto probe_server = make_probe_server(mine);
  notes.put("facts", rank, mine);
  Job job = rank == 0 ? collect_facts(notes, request, gathering) : read_hosts(notes, request);
  const auto hosts = hosts_of(job);
  const bool represents_host = std::ranges::any_of(hosts, [&](const Facts* host) { return host->rank == rank; });
  if (represents_host) notes.put("view", rank, look_around(job, mine, request.stop));
  return rank == 0 ? conclude(notes, std::move(job), request) : hear(notes, std::move(job), request);
}

}  // namespace lockstep::doctor
