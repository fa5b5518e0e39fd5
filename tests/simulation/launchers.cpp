// Launchers, their service and an etcd in simulated time: what a launcher does with a view of its job, and with faults.
#include "simulation/launchers.h"

#include <lockstep/base/parse.h>
#include <lockstep/cluster/elastic/held_outputs.h>
#include <lockstep/cluster/elastic/node_service.h>
#include <lockstep/cluster/elastic/node_session.h>

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <ostream>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "simulation/chance.h"
#include "simulation/timeline.h"

namespace lockstep::simulation {
namespace {

using namespace cluster;
using namespace cluster::elastic;
using std::chrono::seconds;

constexpr milliseconds kTick{100};
constexpr milliseconds kPause{100};
constexpr milliseconds kRefusals{2000};
constexpr milliseconds kFarewell{3000};
constexpr milliseconds kGrace{3000};  // for ranks to end

enum Kind { kill, pause, cut, part, fail, lose, leave, join, etcd_away, lost_answer, stranger, kKinds };
constexpr std::array<const char*, kKinds> kNames{
    "killed launcher",        "stopped launcher", "reset connection of a launcher",
    "cut host of a launcher", "failed rank",      "lost rank",
    "launcher that leaves",   "late launcher",    "etcd away",
    "lost answer of etcd",    "strange launcher"};

/// What is drawn once for a life.
struct Drawn {
  bool etcd = false;
  bool secret = false;
  int launchers = 2;
  Policy policy{};
  int steps = 20;
  milliseconds step{200};
  milliseconds heartbeat{1000};
  milliseconds limit{10000};  ///< of a launcher, without a connection
  milliseconds lease{5000};
  milliseconds latency{1};
  milliseconds write{2};  ///< of etcd
  milliseconds faults_for{30000};
  std::array<int, kKinds> rates{};
  bool completes = true;  ///< none of its faults is a reason to give up
};

Drawn drawn(std::uint64_t seed) {
  Chance chance(seed, 10);
  Drawn d;
  d.etcd = chance.happens(600);
  d.secret = chance.happens(300);
  d.launchers = chance.happens(100) ? chance.from_to(6, 16) : chance.from_to(1, 5);
  d.policy.max_nodes = chance.happens(700) ? d.launchers : chance.from_to(1, d.launchers);
  d.policy.min_nodes = chance.from_to(1, d.policy.max_nodes);
  d.policy.max_restarts = chance.happens(500) ? 0 : chance.from_to(1, 20);
  d.policy.max_replacements = chance.happens(500) ? d.policy.max_restarts : 0;
  d.policy.join_timeout = chance.time(milliseconds(20000), milliseconds(300000));
  d.policy.last_call = chance.time(milliseconds(100), milliseconds(10000));
  d.policy.replace_timeout = chance.time(milliseconds(1000), milliseconds(30000));
  d.policy.heartbeat_limit = chance.time(milliseconds(2000), milliseconds(20000));
  d.heartbeat = std::min(milliseconds(1000), d.policy.heartbeat_limit / 4);
  d.limit = chance.time(milliseconds(5000), milliseconds(60000));
  d.lease = std::max(milliseconds(2000), d.policy.heartbeat_limit);
  d.latency = chance.time(milliseconds(0), milliseconds(50));
  d.write = chance.time(milliseconds(0), milliseconds(100));
  d.steps = chance.from_to(3, 60);
  d.step = chance.time(milliseconds(20), milliseconds(1000));
  d.faults_for = chance.time(milliseconds(3000), milliseconds(60000));
  if (chance.happens(100)) return d;
  const bool only_one = chance.happens(100);
  const int one = chance.below(kKinds);
  for (int kind = 0; kind < kKinds; ++kind) {
    const bool on = only_one ? kind == one : chance.happens(450);
    d.rates[static_cast<std::size_t>(kind)] = on ? (chance.happens(500) ? 1 : chance.from_to(2, 5)) : 0;
    const bool harmless = kind == cut || kind == join || kind == stranger || kind == lost_answer;
    if (on && !harmless) d.completes = false;
  }
  return d;
}

/// A process as the kernel has it: what is delivered to it waits while it is stopped, or blocked.
struct Process {
  bool alive = true;
  Time blocked_until{};
  std::deque<std::function<void()>> held{};
};

struct Wire {
  ConnectionId id = 0;
  int launcher = 0;
  int service = 0;  ///< its incarnation
  bool at_launcher = true;
  bool at_service = true;
  Time to_service{};
  Time to_launcher{};
  Time heard{};
};

/// A service in a launcher.
struct Service {
  int launcher = 0;
  std::int64_t created = 0;  ///< the revision of its key in etcd
  NodeServiceState state;
  bool serves = true;
  HeldOutputs held{};
  Time kept{};  ///< when its lease was kept alive, last
};

enum class Ranks { none, running, stopping };

struct Launcher {
  Process process;
  NodeSession session;
  std::optional<ConnectionId> wire;
  Time disconnected{};
  std::optional<Time> refused_since;
  int service_here = 0;  ///< the incarnation of its service; 0: none
  int looked_at = 0;
  std::size_t replaced = 0;
  int took_part_in = 0;
  Ranks ranks = Ranks::none;
  int round = 0;  ///< of its ranks

  bool meets = false;      ///< node 0 has published the rendezvous of the round
  std::uint64_t life = 0;  ///< counts its ranks' starts, so that old timers are recognized
  bool leaving = false;
  bool held_here = false;

  std::int64_t wished = 0;                         ///< a rank is lost, and waits for the answer to this wish
  std::string logged;                              ///< the last log of the job service, where it has that
  Time delivered{};                                ///< when a service got its last message
  Time troubled{};                                 ///< when it was last stopped, cut off, or without a connection
  bool odd = false;                                ///< a stranger
  std::tuple<int, int, std::size_t, bool> sent{};  ///< of the newest view: round, restarts, replaced nodes, closed
};

class Life {
 public:
  Life(std::uint64_t seed, std::ostream* trace)
      : d_(drawn(seed)), network_(seed, 11), trouble_(seed, 12), names_(seed, 13), trace_(trace) {}
  Outcome run();

 private:
  Launcher& launcher(int index) { return *launchers_[static_cast<std::size_t>(index)]; }
  milliseconds latency() { return d_.latency + network_.time(milliseconds(0), milliseconds(20)); }
  void note(const std::string& text);
  void violate(const std::string& what);
  void deliver(Process& process, std::function<void()> what);
  void drain(Process& process);
  void block(Process& process, milliseconds time);

  int start_launcher(bool host);
  void end_launcher(int index, int code, const std::string& why);
  void find(int index);
  void connect(int index, int service);
  void judge(int index, bool refused);
  void tell(int index, const NodeSessionInput& input);
  void give_launcher(int index, const NodeSessionInput& input);
  void look(int index);
  void start_ranks(int index);
  void stop_ranks(int index);
  void ranks_ended(int index, ExitStatus status, int asked);
  void farewell(int index, int code);
  void take_answer(int index);
  void check_refusal(int index, const FromNodeService& message);
  void log_lost_ranks();
  void beat(int index);
  void train();

  void begin_service(int index, std::int64_t created);
  void end_service(int incarnation, const char* why);
  void give_service(int incarnation, const NodeServiceInput& input);
  void carry_out(const NodeServiceOutput& output);
  void save_if_changed(int incarnation);
  void tick(int incarnation);
  void keep_lease(int incarnation);

  void to_service(ConnectionId id, const FromNode& message);
  void to_launcher(ConnectionId id, const FromNodeService& message);
  void close_at_launcher(ConnectionId id);
  void close_at_service(ConnectionId id);
  void watch(ConnectionId id);

  void check_view(int index, const JobView& view);
  void check_state(const NodeJob& job, bool is_newest);
  void check_ranks_ended(const NodeJob& job);
  bool is_well(const Launcher& one) const {
    const auto most = kGrace + seconds(4) + d_.policy.heartbeat_limit;
    return one.process.alive && one.session.connected && timeline_.now() - one.troubled > most &&
           timeline_.now() - service_troubled_ > most;
  }
  void check_lost(const NodeJob& job);
  void strike(Kind kind);
  void start_stranger();
  bool all_gone() const;

  const Drawn d_;
  Chance network_;
  Chance trouble_;
  Chance names_;
  std::ostream* trace_;
  Timeline timeline_;
  Outcome outcome_;

  std::vector<std::unique_ptr<Launcher>> launchers_;
  std::map<int, Service> services_;  ///< by incarnation
  int incarnations_ = 0;
  std::map<ConnectionId, Wire> wires_;
  ConnectionId next_wire_ = 1;
  std::map<int, Time> parted_;  ///< by launcher: nothing arrives before

  // etcd
  std::int64_t revision_ = 0;
  std::optional<std::pair<int, std::int64_t>> key_;  ///< the incarnation that the key names, and its revision
  Time lease_until_{};
  std::optional<std::string> saved_;
  Time away_until_{};
  bool lose_next_ = false;

  // training
  std::int64_t steps_ = 0;  ///< made
  std::int64_t checkpoint_ = 0;
  int newest_round_ = 0;  ///< that has made a step
  Time newest_since_{};
  Time last_fault_{};

  // promises
  std::optional<JobState> closed_;
  int fails_ = 0;  ///< ranks that failed by themselves
  int wishes_ = 0;
  int grants_ = 0;
  int lost_ = 0;   ///< launchers that were killed, have left or could not be reached
  int round_ = 0;  ///< the newest
  int restarted_ = 0;
  bool failed_ = false;
  std::map<std::string, int> meetings_;  ///< the round of each
  std::map<int, int> replaced_nodes_;    ///< by round
  std::string why_;
  Time service_troubled_{};  ///< when a service began, or could not be reached
};

void Life::note(const std::string& text) {
  for (const char c : text) outcome_.digest = (outcome_.digest ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  if (trace_ == nullptr) return;
  const auto since = timeline_.now().time_since_epoch() - std::chrono::hours(1);
  *trace_ << fmt::format("{:10.3f}  {}\n", std::chrono::duration<double>(since).count(), text);
}

void Life::violate(const std::string& what) {
  note("VIOLATION: " + what);
  if (outcome_.violation.empty()) outcome_.violation = what;
}

// ---- processes

void Life::deliver(Process& process, std::function<void()> what) {
  if (!process.alive) return;
  if (!process.held.empty() || process.blocked_until > timeline_.now()) {
    process.held.push_back(std::move(what));
  } else {
    what();
  }
}

void Life::drain(Process& process) {
  while (process.alive && !process.held.empty() && process.blocked_until <= timeline_.now()) {
    const auto what = std::move(process.held.front());
    process.held.pop_front();
    what();
  }
}

void Life::block(Process& process, milliseconds time) {
  for (auto& each : launchers_) {
    if (&each->process != &process) continue;
    each->troubled = std::max(each->troubled, timeline_.now() + time);
  }
  process.blocked_until = std::max(process.blocked_until, timeline_.now() + time);
  timeline_.at(process.blocked_until, [this, &process] { drain(process); });
}

int Life::start_launcher(bool host) {
  const int index = static_cast<int>(launchers_.size());
  auto& one = *launchers_.emplace_back(std::make_unique<Launcher>());
  one.held_here = host;
  one.session.facts = {"job",          {fmt::format("host{}", index), 1, host, std::nullopt},
                       d_.policy,      names_.token(),
                       names_.token(), d_.secret ? "open sesame" : ""};
  one.disconnected = timeline_.now();
  note(fmt::format("launcher {} starts", index));
  if (host) begin_service(index, 0);
  find(index);
  beat(index);
  return index;
}

void Life::end_launcher(int index, int code, const std::string& why) {
  auto& one = launcher(index);
  if (!one.process.alive) return;
  note(fmt::format("launcher {} ends with {}: {}", index, code, why));
  one.process.alive = false;
  one.process.held.clear();

  one.ranks = Ranks::none;
  ++one.life;
  if (one.service_here != 0) end_service(one.service_here, "with its launcher");
  if (one.wire) close_at_launcher(*one.wire);
}

// ---- a launcher's connection

// Where the service is; with etcd, whether this launcher is to run it.
void Life::find(int index) {
  timeline_.after(kPause, [this, index] {
    deliver(launcher(index).process, [this, index] {
      auto& one = launcher(index);
      if (one.session.over || one.wire || one.session.said_goodbye) return;
      const auto now = timeline_.now();
      if (!d_.etcd) {
        const auto& host = launcher(0);
        const auto found = services_.find(host.service_here);
        const bool there = host.process.alive && found != services_.end() && found->second.serves;
        if (there) return connect(index, host.service_here);
        return judge(index, true);
      }
      if (away_until_ > now) return judge(index, false);
      if (key_ && lease_until_ < now) key_.reset();
      if (key_) {
        const auto found = services_.find(key_->first);
        if (found != services_.end() && found->second.serves) return connect(index, key_->first);
        return judge(index, false);  // until its lease has expired
      }
      // The campaign: the answer may be lost, and then the same request fails, and the lease is revoked.
      const auto created = ++revision_;
      const bool lost = std::exchange(lose_next_, false);
      key_ = {lost ? -1 : incarnations_ + 1, created};
      lease_until_ = now + d_.lease;
      if (!lost) begin_service(index, created);
      if (lost) {
        timeline_.after(milliseconds(200), [this, created] {
          if (key_ && key_->second == created) key_.reset();
        });
      }
      judge(index, false);
    });
  });
}

void Life::judge(int index, bool refused) {
  auto& one = launcher(index);
  const auto now = timeline_.now();
  const bool joined = one.session.ticket != 0;
  if (!refused) one.refused_since.reset();
  if (refused && !one.refused_since) one.refused_since = now;
  const auto waited = now - one.disconnected;
  const bool lost = joined && refused && now - *one.refused_since >= kRefusals;
  if (lost || waited >= (joined ? d_.limit : d_.policy.join_timeout)) {
    one.session.over = SessionEnd{ErrorKind::timeout, "the service does not answer", joined && !lost};
    return look(index);
  }
  find(index);
}

void Life::connect(int index, int service) {
  auto& one = launcher(index);
  const int host = services_.at(service).launcher;
  if (host != index && std::max(parted_[host], parted_[index]) > timeline_.now()) return judge(index, false);
  const auto id = next_wire_++;
  wires_[id] = {id, index, service, true, true, {}, {}, timeline_.now()};
  one.wire = id;
  watch(id);
  timeline_.after(latency(), [this, id] {
    const auto& wire = wires_.at(id);
    deliver(launcher(services_.at(wire.service).launcher).process, [this, id] {
      const auto& one_wire = wires_.at(id);
      if (!services_.at(one_wire.service).serves) return close_at_service(id);
      give_service(one_wire.service, membership::Opened{id, "10.0.0.1:1"});
    });
  });
}

// TCP sends again what a cut host did not get.
void Life::to_service(ConnectionId id, const FromNode& message) {
  auto& wire = wires_.at(id);
  if (!wire.at_launcher) return;
  const int host = services_.at(wire.service).launcher;
  const auto away = host == wire.launcher ? Time{} : std::max(parted_[host], parted_[wire.launcher]);
  wire.to_service = std::max({wire.to_service, timeline_.now() + latency(), away});
  timeline_.at(wire.to_service, [this, id, text = print(message)] {
    deliver(launcher(services_.at(wires_.at(id).service).launcher).process, [this, id, text] {
      const auto& one = wires_.at(id);
      if (!one.at_service || !services_.at(one.service).serves) return;
      if (is_node(services_.at(one.service).state, id)) launcher(one.launcher).delivered = timeline_.now();
      note(fmt::format("launcher {} -> service {}: {}", one.launcher, one.service, text));
      try {
        give_service(one.service, NodeReceived{id, parse_from_node(text)});
      } catch (const Error&) {
        close_at_service(id);
      }
    });
  });
}

void Life::to_launcher(ConnectionId id, const FromNodeService& message) {
  auto& wire = wires_.at(id);
  if (!wire.at_service) return;
  const int host = services_.at(wire.service).launcher;
  const auto away = host == wire.launcher ? Time{} : std::max(parted_[host], parted_[wire.launcher]);
  wire.to_launcher = std::max({wire.to_launcher, timeline_.now() + latency(), away});
  timeline_.at(wire.to_launcher, [this, id, text = print(message)] {
    deliver(launcher(wires_.at(id).launcher).process, [this, id, text] {
      auto& one = wires_.at(id);
      if (!one.at_launcher) return;
      one.heard = timeline_.now();
      note(fmt::format("service {} -> launcher {}: {}", one.service, one.launcher, text));
      try {
        const auto received = parse_from_node_service(text);
        if (std::holds_alternative<NodeWelcome>(received) && launcher(one.launcher).odd)
          violate("a stranger is a node of the job");
        check_refusal(one.launcher, received);
        if (const auto* view = std::get_if<JobView>(&received)) check_view(one.launcher, *view);
        give_launcher(one.launcher, received);
        if (std::holds_alternative<NodeWelcome>(received)) {
          auto& welcomed = launcher(one.launcher);
          welcomed.troubled = std::max(welcomed.troubled, timeline_.now());
        }
        if (std::holds_alternative<ReplacementAnswer>(received)) take_answer(one.launcher);
      } catch (const Error&) {
        close_at_launcher(id);
      }
    });
  });
}

void Life::close_at_launcher(ConnectionId id) {
  auto& wire = wires_.at(id);
  if (!wire.at_launcher) return;
  wire.at_launcher = false;
  auto& one = launcher(wire.launcher);
  one.wire.reset();
  if (one.process.alive) {
    one.troubled = std::max(one.troubled, timeline_.now());
    if (one.session.connected) one.disconnected = std::max(wire.heard, timeline_.now() - d_.limit / 2);
    step(one.session, NodeDisconnected{});
    if (!one.session.over && !one.session.said_goodbye && !one.odd) find(wire.launcher);
    look(wire.launcher);
  }
  timeline_.at(std::max(wire.to_service, timeline_.now() + latency()), [this, id] {
    deliver(launcher(services_.at(wires_.at(id).service).launcher).process, [this, id] { close_at_service(id); });
  });
}

void Life::close_at_service(ConnectionId id) {
  auto& wire = wires_.at(id);
  if (!wire.at_service) return;
  wire.at_service = false;
  timeline_.at(std::max(wire.to_launcher, timeline_.now() + latency()), [this, id] {
    deliver(launcher(wires_.at(id).launcher).process, [this, id] { close_at_launcher(id); });
  });
  if (services_.at(wire.service).serves) give_service(wire.service, membership::Closed{id, "", false});
}

// The keep-alive of a launcher's connection.
void Life::watch(ConnectionId id) {
  timeline_.after(d_.limit / 4, [this, id] {
    auto& wire = wires_.at(id);
    if (!wire.at_launcher) return;
    const auto now = timeline_.now();
    const auto& service = services_.at(wire.service);
    const auto& host = launcher(service.launcher);
    const bool together =
        service.launcher == wire.launcher || (parted_[service.launcher] <= now && parted_[wire.launcher] <= now);
    if (host.process.alive && host.process.blocked_until <= now && service.serves && wire.at_service && together)
      wire.heard = now;
    if (now - wire.heard > d_.limit / 2) {
      deliver(launcher(wire.launcher).process, [this, id] { close_at_launcher(id); });
    }
    watch(id);
  });
}

// ---- the launcher itself (agent.cpp)

void Life::tell(int index, const NodeSessionInput& input) {
  auto& one = launcher(index);
  const auto messages = step(one.session, input);
  if (!one.wire) return;
  for (const auto& message : messages) to_service(*one.wire, message);
}

void Life::give_launcher(int index, const NodeSessionInput& input) {
  tell(index, input);
  look(index);
}

void Life::beat(int index) {
  timeline_.after(d_.heartbeat, [this, index] {
    auto& one = launcher(index);
    if (!one.process.alive) return;
    deliver(one.process, [this, index] { give_launcher(index, NodeBeat{}); });
    beat(index);
  });
}

void Life::look(int index) {
  auto& one = launcher(index);
  if (!one.process.alive || one.leaving || one.odd) return;
  if (one.session.over) {
    if (one.ranks == Ranks::running) return stop_ranks(index);
    if (one.ranks == Ranks::stopping) return;
    end_launcher(index, 1, one.session.over->reason);
    if (one.session.over->again && timeline_.now() < last_fault_ + seconds(60)) start_launcher(false);
    return;
  }
  if (!one.session.view) return;
  const auto view = *one.session.view;
  const auto& job = view.job;
  const bool over = job.phase != Phase::running || job.round != one.round || view.replaced;
  if (one.ranks == Ranks::running && over) return stop_ranks(index);
  if (one.ranks != Ranks::none) return;
  if (job.phase == Phase::closed) return farewell(index, job.exit_code);
  if (view.refused) return farewell(index, 2);
  const auto& said = one.session.report;
  if (job.phase == Phase::gathering && (said.stage == Stage::ended || said.round < job.round))
    return give_launcher(index, NodeReport{.round = job.round});
  if (job.phase != Phase::running || !view.place) return;
  const bool is_news =
      job.round > one.looked_at || (job.round > one.took_part_in && job.replaced.size() > one.replaced);
  if (is_news) {
    one.looked_at = job.round;
    one.replaced = job.replaced.size();
    one.took_part_in = job.round;
    one.meets = false;
  }
  if (one.took_part_in != job.round || one.round == job.round) return;
  if (!view.meeting) {
    if (view.place->node != 0 || one.meets) return;
    one.meets = true;
    const auto place = names_.token();
    meetings_[place] = job.round;
    return give_launcher(index, RanksMeet{job.round, Place{place, 1}});
  }
  start_ranks(index);
}

void Life::start_ranks(int index) {
  auto& one = launcher(index);
  const auto& job = one.session.view->job;
  const auto& meeting = one.session.view->meeting->host;
  if (meetings_[meeting] != job.round)
    violate(fmt::format("ranks of round {} meet where those of round {} did", job.round, meetings_[meeting]));
  one.ranks = Ranks::running;
  one.round = job.round;

  ++one.life;
  note(fmt::format("launcher {} starts its ranks of round {} as node {}", index, job.round,
                   one.session.view->place->node));
  give_launcher(index, NodeReport{.stage = Stage::running, .round = job.round});
}

void Life::stop_ranks(int index) {
  auto& one = launcher(index);
  one.ranks = Ranks::stopping;
  timeline_.after(network_.time(milliseconds(0), kGrace), [this, index, life = one.life] {
    deliver(launcher(index).process, [this, index, life] {
      if (launcher(index).life == life) ranks_ended(index, {0, 15}, 15);
    });
  });
}

void Life::ranks_ended(int index, ExitStatus status, int asked) {
  auto& one = launcher(index);
  one.ranks = Ranks::none;
  ++one.life;
  RankEnd end;
  end.rank = one.session.view->place ? one.session.view->place->first_rank : 0;
  end.status = status;
  end.asked = asked;
  const NodeEnds ends{one.session.facts.node.host, "", {end}, milliseconds(0)};
  if (!status.ok()) tell(index, RanksEnded{one.round, ends});
  tell(index, report_of(ends, one.round, asked != 0));
  look(index);
}

// Says that it leaves, and ends when that was received; the launcher with the service stays while others use it.
void Life::farewell(int index, int code) {
  auto& one = launcher(index);
  one.leaving = true;
  give_launcher(index, NodeReport{.stage = Stage::left, .round = one.session.report.round, .note = "it ends"});
  const auto until = timeline_.now() + kFarewell;
  const auto wait = std::make_shared<std::function<void()>>();
  *wait = [this, index, code, until, wait] {
    deliver(launcher(index).process, [this, index, code, until, wait] {
      auto& leaver = launcher(index);
      const bool gone = leaver.session.said_goodbye || timeline_.now() >= until;
      const auto service = services_.find(leaver.service_here);
      const bool used = service != services_.end() && service->second.serves &&
                        count_users(service->second.state, timeline_.now()) > 0;
      if (gone && !used) return end_launcher(index, code, "the job is over for it");
      timeline_.after(milliseconds(50), *wait);
    });
  };
  timeline_.after(milliseconds(50), *wait);
}

// A lost rank is replaced in place, or its end is a failure.
void Life::take_answer(int index) {
  auto& one = launcher(index);
  if (one.wished == 0 || one.session.answer.number < one.wished) return;
  one.wished = 0;
  if (one.session.answer.granted) {
    if (++grants_ > d_.policy.max_replacements) violate(fmt::format("{} replacements are granted", grants_));
    return;
  }
  if (one.ranks != Ranks::running) return;
  ++fails_;
  ranks_ended(index, {0, 9}, 0);
}

// The job service of node 0: which ranks it has lost.
void Life::log_lost_ranks() {
  timeline_.after(seconds(1), [this] {
    if (all_gone()) return;
    for (std::size_t i = 0; i < launchers_.size(); ++i) {
      auto& first = *launchers_[i];
      const auto& view = first.session.view;
      if (!first.process.alive || first.process.blocked_until > timeline_.now() || first.ranks != Ranks::running)
        continue;
      if (!view || !view->place || view->place->node != 0 || view->job.round != first.round) continue;
      std::set<int> here;
      for (const auto& each : launchers_) {
        const auto& other = each->session.view;
        if (each->process.alive && each->ranks == Ranks::running && each->round == first.round && other && other->place)
          here.insert(other->place->node);
      }
      std::string lost;
      for (int node = 0; node < view->job.nodes; ++node) {
        if (!here.contains(node)) lost += fmt::format("{}{}", lost.empty() ? "" : ",", node);
      }
      const auto log = fmt::format("lost_ranks [{}]\n", lost);
      if (std::exchange(first.logged, log) != log) give_launcher(static_cast<int>(i), ServiceLogged{first.round, log});
    }
    log_lost_ranks();
  });
}

// All places of a round have ranks: they make a step together.
void Life::train() {
  timeline_.after(d_.step, [this] {
    std::map<int, std::vector<int>> rounds;
    for (std::size_t i = 0; i < launchers_.size(); ++i) {
      auto& one = *launchers_[i];
      if (one.process.alive && one.process.blocked_until <= timeline_.now() && one.ranks == Ranks::running &&
          one.wished == 0)
        rounds[one.round].push_back(static_cast<int>(i));
    }
    for (const auto& [round, members] : rounds) {
      std::set<int> places;
      int nodes = 0;
      for (const int index : members) {
        const auto& view = *launcher(index).session.view;
        const bool has_lost_place = view.job.round == round && view.job.phase == Phase::running && !view.place;
        if (has_lost_place && is_well(launcher(index)))
          violate(fmt::format("the ranks of launcher {} go on without a place", index));
        if (view.job.round != round || !view.place) continue;
        if (!places.insert(view.place->node).second)
          violate(fmt::format("two nodes compute in place {}", view.place->node));
        nodes = std::max(nodes, view.job.nodes);
      }
      if (static_cast<int>(places.size()) != nodes || nodes == 0) continue;
      if (round < newest_round_) {
        // Nodes that are all cut off from the service, and not from each other, go on until their launchers end them;
        // and so do those of launchers that were stopped.
        const auto most = d_.limit + kGrace + seconds(1);
        const bool troubled =
            std::ranges::any_of(members, [&](int index) { return timeline_.now() - launcher(index).troubled < most; });
        if (!troubled && timeline_.now() > newest_since_ + most)
          violate(fmt::format("round {} still makes steps after round {}", round, newest_round_));
        continue;
      }
      if (round > newest_round_) {
        steps_ = checkpoint_;
        newest_since_ = timeline_.now();
      }
      newest_round_ = round;
      if (++steps_ % 5 == 0) checkpoint_ = steps_;
      if (steps_ < d_.steps) continue;
      for (const int index : members) {
        deliver(launcher(index).process, [this, index, life = launcher(index).life] {
          if (launcher(index).life == life && launcher(index).ranks == Ranks::running) ranks_ended(index, {0, 0}, 0);
        });
      }
    }
    if (!all_gone()) train();
  });
}

// ---- the service in a launcher (node_server.cpp, etcd_rendezvous.cpp)

void Life::begin_service(int index, std::int64_t created) {
  auto& one = launcher(index);
  const int incarnation = ++incarnations_;
  auto& service = services_[incarnation];
  service.launcher = index;
  service.created = created;
  service.kept = timeline_.now();
  service.state.secret = d_.secret ? "open sesame" : "";
  service.state.stepped = timeline_.now();
  if (d_.etcd && saved_) service.state.jobs["job"] = read_job(*saved_, timeline_.now());
  one.service_here = incarnation;
  service_troubled_ = std::max(service_troubled_, timeline_.now());
  note(fmt::format("launcher {} runs the service {}{}", index, incarnation, saved_ ? " with the saved state" : ""));
  tick(incarnation);
  if (d_.etcd) keep_lease(incarnation);
}

void Life::end_service(int incarnation, const char* why) {
  auto& service = services_.at(incarnation);
  if (!service.serves) return;
  note(fmt::format("service {} ends: {}", incarnation, why));
  service.serves = false;
  launcher(service.launcher).service_here = 0;
  for (auto& [id, wire] : wires_) {
    if (wire.service == incarnation && wire.at_service) close_at_service(id);
  }
}

void Life::tick(int incarnation) {
  timeline_.after(kTick, [this, incarnation] {
    auto& service = services_.at(incarnation);
    if (!service.serves) return;
    auto& process = launcher(service.launcher).process;
    if (process.held.empty() && process.blocked_until <= timeline_.now()) {
      give_service(incarnation, membership::Tick{});
    } else if (process.blocked_until > timeline_.now() && network_.happens(500)) {
      // A timer that is due meanwhile fires before what has arrived is read.
      return timeline_.at(process.blocked_until - std::chrono::nanoseconds(1), [this, incarnation] {
        auto& woken = services_.at(incarnation);
        if (woken.serves && launcher(woken.launcher).process.alive) give_service(incarnation, membership::Tick{});
        tick(incarnation);
      });
    }
    tick(incarnation);
  });
}

void Life::keep_lease(int incarnation) {
  timeline_.after(d_.lease / 3, [this, incarnation] {
    auto& service = services_.at(incarnation);
    if (!service.serves) return;
    deliver(launcher(service.launcher).process, [this, incarnation] {
      auto& one = services_.at(incarnation);
      if (!one.serves) return;
      const auto now = timeline_.now();
      const bool held = key_ && key_->second == one.created && lease_until_ >= now;
      if (away_until_ <= now && held) {
        lease_until_ = now + d_.lease;
        one.kept = now;
      } else if (now - one.kept >= d_.lease || (away_until_ <= now && !held)) {
        return end_service(incarnation, "its lease has expired");
      }
      keep_lease(incarnation);
    });
  });
}

void Life::give_service(int incarnation, const NodeServiceInput& input) {
  auto& service = services_.at(incarnation);
  if (!service.serves) return;
  try {
    auto outputs = step(service.state, input, timeline_.now(), [this] { return names_.token(); });
    const bool is_newest = !d_.etcd || (key_ && key_->second == service.created && lease_until_ >= timeline_.now());
    if (service.state.jobs.contains("job")) check_state(service.state.jobs.at("job"), is_newest);
    if (d_.etcd) outputs = service.held.take(std::move(outputs));
    for (const auto& output : outputs) carry_out(output);
    save_if_changed(incarnation);
  } catch (const Error&) {
    if (const auto* received = std::get_if<NodeReceived>(&input)) close_at_service(received->connection);
  }
}

// What depends on the state waits until etcd has it.
void Life::save_if_changed(int incarnation) {
  auto& service = services_.at(incarnation);
  if (!service.held.begin_save()) return;
  const auto when = std::max(timeline_.now() + d_.write, away_until_);
  timeline_.at(when, [this, incarnation, text = print_job(service.state.jobs.at("job"))] {
    const auto& writer = services_.at(incarnation);
    // Without an answer the same is written again.
    const bool held = key_ && key_->second == writer.created && lease_until_ >= timeline_.now();
    if (held && launcher(writer.launcher).process.alive) saved_ = text;
    deliver(launcher(writer.launcher).process, [this, incarnation, held] {
      auto& one = services_.at(incarnation);
      if (!one.serves) return;
      if (!held) return end_service(incarnation, "another one runs it");
      for (const auto& output : one.held.end_save()) carry_out(output);
      save_if_changed(incarnation);
    });
  });
}

void Life::carry_out(const NodeServiceOutput& output) {
  if (const auto* send = std::get_if<SendToNode>(&output)) to_launcher(send->connection, send->message);
  if (const auto* close = std::get_if<membership::Close>(&output)) {
    timeline_.after(milliseconds(0), [this, id = close->connection] { close_at_service(id); });
  }
  if (const auto* line = std::get_if<membership::LogLine>(&output)) note("service: " + line->text);
}

// ---- what is promised

void Life::check_state(const NodeJob& job, bool is_newest) {
  const auto& state = job.state;
  if (state.restarts > job.policy.max_restarts)
    violate(fmt::format("{} restarts of {}", state.restarts, job.policy.max_restarts));
  if (job.replaced > 0 && job.replaced + state.restarts > std::max(job.policy.max_replacements, state.restarts))
    violate(fmt::format("{} replacements and {} restarts of {}", job.replaced, state.restarts,
                        job.policy.max_replacements));
  if (state.round > round_) {
    // A round after a failure, without a node that was lost or has left, is a restart of all.
    if (state.round == round_ + 1 && failed_) ++restarted_;
    check_ranks_ended(job);
    round_ = state.round;
  }
  failed_ = state.phase == Phase::gathering && state.why.starts_with("a rank on");
  if (restarted_ > job.policy.max_restarts + lost_)
    violate(fmt::format("all ranks were started again {} times", restarted_));
  auto& of_round = replaced_nodes_[state.round];
  of_round = std::max(of_round, static_cast<int>(state.replaced.size()));
  int nodes_replaced = 0;
  for (const auto& [round, number] : replaced_nodes_) nodes_replaced += number;
  if (job.replaced > wishes_ + nodes_replaced)
    violate(fmt::format("{} replacements, and {} were wanted", job.replaced, wishes_ + nodes_replaced));
  if (job.replaced < grants_ && is_newest)
    violate(fmt::format("{} replacements are counted of {}", job.replaced, grants_));
  if (state.restarts > fails_) violate(fmt::format("{} restarts, and {} ranks have failed", state.restarts, fails_));
  check_lost(job);
  const std::set<Ticket> unique(job.members.begin(), job.members.end());
  if (unique.size() != job.members.size()) violate("a node has two places");
  if (state.phase == Phase::running && static_cast<int>(job.members.size()) > job.policy.max_nodes)
    violate("a round has too many nodes");
  if (state.phase == Phase::running && static_cast<int>(job.members.size()) < job.policy.min_nodes)
    violate("a round has too few nodes");
}

// A new round begins when the ranks of the last one have ended.
void Life::check_ranks_ended(const NodeJob& job) {
  for (const auto& [ticket, node] : job.nodes) {
    for (std::size_t i = 0; i < launchers_.size(); ++i) {
      const auto& one = *launchers_[i];
      const bool is_it = one.session.ticket == ticket && one.session.facts.life == node.life;
      if (is_it && is_well(one) && one.ranks != Ranks::none)
        violate(fmt::format("round {} begins while the ranks of launcher {} run", job.state.round, i));
    }
  }
}

// Nobody is lost who could be heard.
void Life::check_lost(const NodeJob& job) {
  if (std::exchange(why_, job.state.why) == job.state.why) return;
  const auto end = job.state.why.find(" was lost: no heartbeat");
  if (end == std::string::npos) return;
  const auto number = parse_integer(job.state.why.substr(4, end - 4));
  if (!number) return;
  const auto& one = launcher(static_cast<int>(*number));
  const auto now = timeline_.now();
  if (one.process.alive && one.session.connected && now - one.troubled > job.policy.heartbeat_limit + seconds(3) &&
      now - service_troubled_ > job.policy.heartbeat_limit + seconds(3))
    violate(fmt::format("launcher {} counts as lost, and nothing is wrong with it", *number));
}

// With etcd, no service forgets a launcher that was there a moment ago.
void Life::check_refusal(int index, const FromNodeService& message) {
  const auto* refusal = std::get_if<NodeRefusal>(&message);
  const auto& one = launcher(index);
  if (refusal == nullptr || !refusal->again || one.odd || one.leaving || !d_.etcd) return;
  if (timeline_.now() - one.delivered < 4 * d_.policy.heartbeat_limit &&
      timeline_.now() - one.process.blocked_until > seconds(60))
    violate(fmt::format("launcher {} is forgotten: {}", index, refusal->reason));
}

// What a launcher has seen is not forgotten, by whatever service.
void Life::check_view(int index, const JobView& view) {
  auto& one = launcher(index);
  const auto& job = view.job;
  const auto now = std::tuple(job.round, job.restarts, job.replaced.size(), job.phase == Phase::closed);
  const auto& [round, restarts, replaced, closed] = one.sent;
  const bool back = job.round < round || job.restarts < restarts || (closed && job.phase != Phase::closed) ||
                    (job.round == round && job.replaced.size() < replaced);
  if (back) violate(fmt::format("launcher {} sees round {} after round {}", index, job.round, round));
  one.sent = now;
  if (job.phase != Phase::closed) return;
  if (closed_ && (job.exit_code != closed_->exit_code || job.failed != closed_->failed))
    violate("the job has ended in two ways");
  closed_ = job;
  if (job.why.starts_with("a rank on") && view.report.empty()) violate("the report of the failure is lost");
}

// ---- faults

void Life::strike(Kind kind) {
  std::vector<int> living;
  for (std::size_t i = 0; i < launchers_.size(); ++i) {
    if (launchers_[i]->process.alive && !launchers_[i]->odd) living.push_back(static_cast<int>(i));
  }
  if (living.empty()) return;
  const int index = living[static_cast<std::size_t>(trouble_.below(static_cast<int>(living.size())))];
  auto& one = launcher(index);
  last_fault_ = timeline_.now();
  if (kind == kill || kind == pause || kind == part || kind == leave || kind == etcd_away || kind == cut) ++lost_;
  const auto counted = [&](const std::string& what) {
    ++outcome_.faults[kNames.at(static_cast<std::size_t>(kind))];
    note("FAULT: " + what);
  };
  switch (kind) {
    case kill: {
      counted(fmt::format("launcher {} is killed", index));
      const bool comes_back = trouble_.happens(700) && !one.held_here;
      end_launcher(index, -9, "killed");
      if (comes_back)
        timeline_.after(trouble_.time(milliseconds(100), milliseconds(10000)), [this] { start_launcher(false); });
      return;
    }
    case pause: {
      const auto time = trouble_.time(milliseconds(100), milliseconds(90000));
      counted(fmt::format("launcher {} is stopped for {} ms", index, time.count()));
      return block(one.process, time);
    }
    case cut:
      if (!one.wire) return;
      counted(fmt::format("the connection of launcher {} is reset", index));
      return close_at_launcher(*one.wire);
    case part:
      counted(fmt::format("the host of launcher {} is cut off", index));
      parted_[index] = timeline_.now() + trouble_.time(milliseconds(500), milliseconds(60000));
      one.troubled = std::max(one.troubled, parted_[index]);
      if (one.service_here != 0) service_troubled_ = std::max(service_troubled_, parted_[index]);
      return;
    case fail:
      if (one.ranks != Ranks::running) return;
      counted(fmt::format("a rank of launcher {} fails", index));
      return deliver(one.process, [this, index, life = one.life] {
        if (launcher(index).life != life || launcher(index).ranks != Ranks::running) return;
        ++fails_;
        ranks_ended(index, {3, 0}, 0);
      });
    case lose:
      if (one.ranks != Ranks::running || one.wished != 0) return;
      counted(fmt::format("a rank of launcher {} is lost", index));
      return deliver(one.process, [this, index, life = one.life] {
        auto& loser = launcher(index);
        if (loser.life != life || loser.ranks != Ranks::running || loser.wished != 0) return;
        ++wishes_;
        tell(index, NodeWish{});
        loser.wished = loser.session.wishes;
      });
    case leave:
      if (one.leaving) return;
      counted(fmt::format("launcher {} gets SIGTERM", index));
      return deliver(one.process, [this, index] {
        auto& leaver = launcher(index);
        if (leaver.leaving) return;
        leaver.ranks = Ranks::none;
        ++leaver.life;
        farewell(index, 143);
      });
    case join:
      counted("a launcher comes late");
      start_launcher(false);
      return;
    case etcd_away:
      if (!d_.etcd) return;
      counted("etcd does not answer");
      service_troubled_ = timeline_.now() + seconds(60);
      away_until_ = timeline_.now() + trouble_.time(milliseconds(500), milliseconds(30000));
      lease_until_ = std::max(lease_until_, away_until_ + d_.lease);  // a new leader of etcd extends all leases
      return;
    case lost_answer:
      if (!d_.etcd) return;
      counted("an answer of etcd is lost");
      lose_next_ = true;
      return;
    case stranger: counted("a strange launcher"); return start_stranger();
    case kKinds: return;
  }
}

// Of another secret or protocol, or one that takes another's number.
void Life::start_stranger() {
  const int index = static_cast<int>(launchers_.size());
  auto& one = *launchers_.emplace_back(std::make_unique<Launcher>());
  one.odd = true;
  one.session.facts = {"job",          {"stranger", 1, false, std::nullopt}, d_.policy, names_.token(),
                       names_.token(), d_.secret ? "open barley" : ""};
  if (!d_.secret) {
    one.session.ticket = 1;
    one.session.service = names_.token();
    // Or it knows the name of the service, and not that of the launcher whose number it takes.
    if (trouble_.happens(500)) one.session.service = launchers_.front()->session.service;
  }
  for (const auto& [incarnation, service] : services_) {
    if (service.serves) return connect(index, incarnation);
  }
}

bool Life::all_gone() const {
  return std::ranges::none_of(launchers_, [](const auto& each) { return each->process.alive && !each->odd; });
}

Outcome Life::run() {
  note(fmt::format(
      "{} launchers, {} to {} nodes, {}, {} restarts, {} replacements, {} steps; heartbeat limit {} ms, "
      "limit {} ms, lease {} ms",
      d_.launchers, d_.policy.min_nodes, d_.policy.max_nodes, d_.etcd ? "etcd" : "no etcd", d_.policy.max_restarts,
      d_.policy.max_replacements, d_.steps, d_.policy.heartbeat_limit.count(), d_.limit.count(), d_.lease.count()));
  for (int i = 0; i < d_.launchers; ++i) {
    if (i == 0) {
      start_launcher(!d_.etcd);
    } else {
      timeline_.after(network_.time(milliseconds(0), milliseconds(5000)), [this] { start_launcher(false); });
    }
  }
  for (int kind = 0; kind < kKinds; ++kind) {
    for (int i = 0; i < d_.rates[static_cast<std::size_t>(kind)]; ++i) {
      const auto when = milliseconds(trouble_.below(static_cast<int>(d_.faults_for.count()) + 1));
      timeline_.after(when, [this, kind] { strike(static_cast<Kind>(kind)); });
    }
  }
  train();
  if (d_.policy.max_replacements > 0) log_lost_ranks();
  const auto calm = d_.policy.join_timeout * 3 + d_.policy.last_call * 4 + d_.policy.replace_timeout * 3 +
                    d_.policy.heartbeat_limit * 12 + d_.limit * 4 + d_.step * d_.steps * (d_.policy.max_restarts + 4) +
                    seconds(300);
  const Time end = timeline_.now() + d_.faults_for + calm;
  constexpr std::uint64_t kMostEvents = 2'000'000;
  while (outcome_.violation.empty() && (!all_gone() || launchers_.empty()) && timeline_.run_next(end)) {
    if (timeline_.events_run() > kMostEvents) violate("the launchers are never quiet");
  }
  if (outcome_.violation.empty() && !all_gone()) {
    std::string left;
    for (std::size_t i = 0; i < launchers_.size(); ++i) {
      if (launchers_[i]->process.alive && !launchers_[i]->odd) left += fmt::format(" {}", i);
    }
    violate("long after the last fault there are launchers" + left);
  }
  const bool ended_well = closed_ && !closed_->failed;
  if (outcome_.violation.empty() && d_.completes && !ended_well)
    violate("the job could have been completed, and was not");
  if (ended_well && steps_ < d_.steps && outcome_.violation.empty())
    violate("the job has ended well, and is not complete");
  outcome_.end = ended_well ? "completed" : "given up";
  outcome_.events = timeline_.events_run();
  return outcome_;
}

}  // namespace

Outcome live_launchers(std::uint64_t seed, std::ostream* trace) { return Life(seed, trace).run(); }

}  // namespace lockstep::simulation
