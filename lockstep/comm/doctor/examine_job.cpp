// The exchange between the doctors of all ranks, over the store: facts to rank 0, then hosts, views, and the verdict.
#include <lockstep/comm/doctor/examine_job.h>

#include <lockstep/base/error.h>
#include <lockstep/comm/meet/rendezvous.h>
#include <lockstep/comm/meet/stores.h>
#include <lockstep/doctor/checks.h>
#include <lockstep/doctor/links.h>
#include <lockstep/doctor/probe.h>
#include <lockstep/world/host_addresses.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace lockstep::doctor {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// The messages between the doctors of all ranks: JSON under keys of the job's store. Exceptions are those of the
/// store.
class Notes {
 public:
  /// `corner` is a prefix of the message keys. The store must answer within its own time limit.
  Notes(detail::StorePtr store, std::string corner);

  void put(std::string_view what, int rank, const nlohmann::json& value);
  /// Waits for the value; nullopt when `wait_limit` has run out.
  std::optional<nlohmann::json> take(std::string_view what, int rank, const WaitLimit& wait_limit);

 private:
  std::string key(std::string_view what, int rank) const;

  detail::StorePtr store_;
  std::string corner_;
};

Notes::Notes(detail::StorePtr store, std::string corner) : store_(std::move(store)), corner_(std::move(corner)) {}

std::string Notes::key(std::string_view what, int rank) const { return fmt::format("{}/{}/{}", corner_, what, rank); }

void Notes::put(std::string_view what, int rank, const nlohmann::json& value) {
  store_->set(key(what, rank), detail::to_bytes(value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)));
}

// Polls, because a store of libtorch 1.13 cannot cancel a wait that timed out.
std::optional<nlohmann::json> Notes::take(std::string_view what, int rank, const WaitLimit& wait_limit) {
  const auto where = key(what, rank);
  auto pause = milliseconds(2);
  while (!store_->check({where})) {
    if (wait_limit.over()) return std::nullopt;
    std::this_thread::sleep_for(std::min(pause, wait_limit.slice()));
    pause = std::min(pause * 2, milliseconds(100));
  }
  return nlohmann::json::parse(detail::to_text(store_->get(where)));
}

/// The expected participants.
struct Gathering {
  std::vector<int> absent{};             ///< known to be absent: not waited for (used on rank 0)
  bool all_are_asked = true;             ///< a rank that does not answer is absent; else it may be late
  std::function<void()> closed = [] {};  ///< called when no rank is waited for any more (on rank 0)
};

constexpr auto kLinkLimit = seconds(5);
constexpr auto kNamesLimit = seconds(5);
constexpr auto kMoment = seconds(3);  // longer than the wait of rank 0, which finds the missing ranks at its deadline

// A host needs a probe server only when the job has other hosts.
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

// Rank 0 collects the facts of all ranks and publishes the first rank of each host, so that the number of requests
// grows linearly with the number of ranks.
JobFacts collect_facts(Notes& notes, const FactsRequest& request, const Gathering& gathering) {
  const WaitLimit wait_limit(request.wait, request.stop);
  JobFacts job;
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

JobFacts read_hosts(Notes& notes, const FactsRequest& request) {
  const auto hosts = notes.take("hosts", 0, WaitLimit(request.wait + kMoment, request.stop));
  if (!hosts) {
    fail(ErrorKind::timeout, "doctor", "the store answers, but rank 0 collected no facts within {} s",
         request.wait.count() / 1000);
  }
  JobFacts job;
  job.size = request.world.size;
  hosts->get_to(job.ranks);
  return job;
}

// The results of the first rank of each host about the other hosts.
nlohmann::json look_around(const JobFacts& job, const Facts& mine, const std::stop_token& stop) {
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
    // A host without an address, or with a loopback address, is already a finding.
    const bool is_itself = is_loopback_address(host->address) && host->network != mine.network;
    if (host->rank != mine.rank && host->probe_server != 0 && !is_itself) others.push_back(host);
  }
  return {{"links", try_links(mine.rank, others, kLinkLimit, stop)}, {"names", names}};
}

void collect_views(Notes& notes, JobFacts& job, const FactsRequest& request) {
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

// The store may be in this process, so this rank stays until the other ranks have read the verdict.
void wait_for_readers(Notes& notes, const JobFacts& job, const std::stop_token& stop) {
  const WaitLimit wait_limit(seconds(2), stop);
  for (const Facts& facts : job.ranks) {
    if (facts.rank != 0 && !notes.take("read", facts.rank, wait_limit)) return;
  }
}

Examination conclude(Notes& notes, JobFacts job, const FactsRequest& request) {
  collect_views(notes, job, request);
  Examination done;
  done.findings = examine(job);
  done.sound = count(done.findings, Severity::error) == 0;
  notes.put("verdict", 0, {{"sound", done.sound}});
  wait_for_readers(notes, job, request.stop);
  done.job = std::move(job);
  return done;
}

Examination hear(Notes& notes, JobFacts job, const FactsRequest& request) {
  const auto wait = 2 * request.wait + kLinkLimit + kNamesLimit + kMoment;
  const auto verdict = notes.take("verdict", 0, WaitLimit(wait, request.stop));
  if (!verdict) fail(ErrorKind::timeout, "doctor", "rank 0 did not send the result");
  notes.put("read", request.world.rank, true);
  Examination done;
  done.job = std::move(job);
  done.speaks = false;
  done.sound = verdict->at("sound").get<bool>();
  return done;
}

/// The steps that the doctors of all ranks take together. Collective. `mine` receives the port of this host's probe
/// server.
Examination among_ranks(Notes& notes, Facts mine, const FactsRequest& request, const Gathering& gathering) {
  const int rank = mine.rank;
  const auto probe_server = make_probe_server(mine);
  notes.put("facts", rank, mine);
  JobFacts job = rank == 0 ? collect_facts(notes, request, gathering) : read_hosts(notes, request);
  const auto hosts = hosts_of(job);
  const bool represents_host = std::ranges::any_of(hosts, [&](const Facts* host) { return host->rank == rank; });
  if (represents_host) notes.put("view", rank, look_around(job, mine, request.stop));
  return rank == 0 ? conclude(notes, std::move(job), request) : hear(notes, std::move(job), request);
}

// A store that was unreachable during the whole start-up will not appear at the last moment.
constexpr auto kVisit = std::chrono::seconds(2);

// The doctor's own file, because the job's file must be new when the job starts. The last rank's store removes it. If
// some ranks were absent, rank 0 removes it; otherwise the next run would read its content as current facts.
class RendezvousFile {
 public:
  explicit RendezvousFile(World& world) {
    if (world.rendezvous != Rendezvous::file) return;
    world.store_path += ".doctor";
    if (world.rank == 0) path_ = world.store_path;
  }
  RendezvousFile(const RendezvousFile&) = delete;
  RendezvousFile& operator=(const RendezvousFile&) = delete;
  void leave_to_store() { path_.clear(); }
  ~RendezvousFile() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove(path_, ignored);
  }

 private:
  std::filesystem::path path_;
};

// The findings that are possible without the other ranks, and why those were not reached.
Examination alone(Facts mine, const FactsRequest& request, const std::string& why, std::vector<int> missing = {}) {
  Examination done;
  done.job.size = request.world.size;
  done.job.master = master_of(request.world);
  done.job.ranks = {std::move(mine)};
  done.job.unmet = why;
  done.job.missing = std::move(missing);
  done.findings = examine(done.job);
  done.sound = count(done.findings, Severity::error) == 0;
  return done;
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

// An error on the way to the other ranks is a finding.
Examination alone_unless(Facts mine, const FactsRequest& request, const std::function<Examination()>& meet) {
  try {
    return meet();
  } catch (const Error& error) {
    return alone(std::move(mine), request, error.message());
  } catch (const std::exception& error) {
    return alone(std::move(mine), request,
                 fmt::format("the connection to the store where ranks meet broke: {}", first_line(error.what())));
  }
}

Examination no_answer() {
  Examination done;
  done.speaks = false;
  return done;
}

Examination among_those_here(const Facts& mine, const FactsRequest& request, const detail::StorePtr& store) {
  // Rank 0 leads, even when the launcher holds the store.
  const bool led = mine.rank == 0 || detail::absent_ranks(*store, 1).empty();
  if (!led) return alone(mine, request, "", {0});
  Gathering gathering;
  gathering.all_are_asked = false;
  if (mine.rank == 0) gathering.absent = detail::absent_ranks(*store, request.world.size);
  Notes notes(store, "slow_start");
  try {
    return among_ranks(notes, mine, request, gathering);
  } catch (const Error&) {
    if (mine.rank == 0) throw;
    return no_answer();  // rank 0 started later and will examine the job itself
  }
}

}  // namespace

Examination examine_job(const FactsRequest& request) {
  Facts mine = own_facts(request, OpensPort::yes);
  ask_for_devices(mine);
  // When the port is taken there is no rendezvous, and rank 0 reports the reason.
  const bool port_is_taken = mine.port && !mine.port->problem.empty();
  if (request.world.size == 1 || port_is_taken) return alone(std::move(mine), request, "");
  return alone_unless(mine, request, [&] {
    World world = request.world;
    RendezvousFile file(world);  // outlives the store
    const auto opened = detail::open_store(world, request.wait);
    offer_route_to_store(mine, world, opened.host, opened.port);
    Notes notes(opened.store, "doctor");
    Gathering gathering;
    // A rank that connects now joins the next rendezvous, that of a program that follows this one.
    gathering.closed = [&opened] { detail::close_rendezvous(*opened.store); };
    auto done = among_ranks(notes, mine, request, gathering);
    if (done.job.missing.empty()) file.leave_to_store();
    return done;
  });
}

Examination examine_job_beside_start(const FactsRequest& request, const std::string& host, std::uint16_t port,
                                     bool found) {
  Facts mine = own_facts(request, OpensPort::no);
  offer_route_to_store(mine, request.world, host, port);
  if (request.world.rendezvous != Rendezvous::file && host.empty()) {
    return alone(mine, request, "the address where ranks meet is not known yet");
  }
  return alone_unless(mine, request, [&] {
    const auto limit = std::min<std::chrono::milliseconds>(request.wait, kVisit);
    return among_those_here(mine, request, detail::visit_store(request.world, host, port, found, limit));
  });
}

}  // namespace lockstep::doctor
