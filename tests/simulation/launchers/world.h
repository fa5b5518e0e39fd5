// The parts of a simulated life of launchers: what was drawn for it, its launchers, their services and connections, an
// etcd, and its model of training.
#pragma once

#include <lockstep/base/process.h>
#include <lockstep/cluster/elastic/node_service.h>
#include <lockstep/cluster/elastic/node_session.h>

#include <array>
#include <cstdint>
#include <iosfwd>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "simulation/frame.h"

namespace lockstep::simulation::launchers {

namespace elastic = cluster::elastic;
using membership::ConnectionId;
using std::chrono::seconds;

/// The kinds of faults, each on or off for a whole life.
enum class Fault {
  kill,         ///< SIGKILL of a launcher, and of its service; often another launcher starts
  pause,        ///< SIGSTOP, then SIGCONT
  cut,          ///< a connection is reset
  part,         ///< a launcher's host is cut off from the others, and comes back
  fail,         ///< a rank fails
  lose,         ///< a rank is lost, which may be replaced in place
  leave,        ///< SIGTERM
  join,         ///< one launcher more
  etcd_away,    ///< etcd does not answer
  lost_answer,  ///< etcd elects a launcher, and the answer is lost
  stranger,     ///< a launcher of another secret, or one that takes another's number
  clock_jump,   ///< the clock of a launcher's host jumps forward, as in a virtual machine that was suspended
};
inline constexpr int kFaults = 12;
const char* name(Fault fault);

/// The longest time in which ranks end, more or less.
inline constexpr milliseconds kGrace{3000};

/// What is drawn once for a life.
struct Circumstances {
  bool etcd = false;
  bool secret = false;
  int launchers = 2;
  elastic::Policy policy{};
  int steps = 20;
  milliseconds step{200};
  milliseconds heartbeat{1000};
  milliseconds limit{10000};  ///< of a launcher, without a connection
  milliseconds lease{5000};
  milliseconds latency{1};
  milliseconds write{2};  ///< of etcd
  milliseconds faults_for{30000};
  std::array<int, kFaults> rates{};
  bool completes = true;  ///< none of its faults is a reason to give up
  bool survives = false;  ///< with etcd, and killed launchers come back: that is no reason, either
};

/// A connection of a launcher with a service.
struct Wire {
  ConnectionId id = 0;
  int launcher = 0;
  int service = 0;  ///< its incarnation
  bool at_launcher = true;
  bool at_service = true;
  Time to_service{};  ///< when the last message arrives
  Time to_launcher{};
  Time heard{};  ///< by the launcher
};

/// A service in a launcher.
struct Service {
  int launcher = 0;
  std::int64_t created = 0;  ///< the revision of its key in etcd
  elastic::NodeServiceState state;
  bool serves = true;
  elastic::HeldOutputs held{};
  Time kept{};        ///< when its lease was kept alive, last, by the clock of its host
  std::string why{};  ///< of its job, as of its last step
};

enum class Ranks { none, running, stopping };

struct Launcher {
  Process process{.alive = true};
  Time::duration ahead{};  ///< the clock of its host, of the simulated time
  elastic::NodeSession session;
  std::optional<ConnectionId> wire;
  Time disconnected{};
  std::optional<Time> refused_since;
  int service_here = 0;  ///< the incarnation of its service; 0: none
  int looked_at = 0;
  std::size_t replaced = 0;
  int took_part_in = 0;
  Ranks ranks = Ranks::none;
  int round = 0;           ///< of its ranks
  bool meets = false;      ///< node 0 has published the rendezvous of the round
  std::uint64_t life = 0;  ///< counts its ranks' starts, so that old timers are recognized
  bool leaving = false;
  bool held_here = false;

  std::int64_t wished = 0;                         ///< a rank is lost, and waits for the answer to this wish
  cluster::RankLosses losses;                      ///< what its job service reported last, where it has that
  Time delivered{};                                ///< when the service with the lease got its last message
  Time troubled{};                                 ///< when it was last stopped, cut off, or without a connection
  bool odd = false;                                ///< a stranger
  std::tuple<int, int, std::size_t, bool> sent{};  ///< of the newest view: round, restarts, replaced nodes, closed
};

/// The whole simulation; see the files for its parts.
class Life final : Frame {
 public:
  Life(std::uint64_t seed, std::ostream* trace);
  Outcome run();

 private:
  // life.cpp
  void note(const std::string& text) override;
  milliseconds latency() { return circumstances_.latency + network_.time(milliseconds(0), milliseconds(20)); }
  bool all_gone() const;
  void run_events();

  // launcher.cpp
  Launcher& launcher(int index) { return *launchers_[static_cast<std::size_t>(index)]; }
  Time clock_of(const Launcher& one) const { return timeline_.now() + one.ahead; }
  elastic::NodeFacts facts(const elastic::NodeDescription& node, const std::string& secret);
  int start_launcher(bool host);
  void end_launcher(int index, int code, const std::string& why);
  void give_session(int index, const elastic::NodeSessionInput& input);
  void give_launcher(int index, const elastic::NodeSessionInput& input);
  void beat(int index);
  void look(int index);
  void start_ranks(int index);
  void stop_ranks(int index);
  void ranks_ended(int index, ExitStatus status, int asked);
  void take_answer(int index);
  void farewell(int index, int code);
  void await_goodbye(int index, int code, Time until);

  // training.cpp
  void train();
  void make_step(int round, const std::vector<int>& members);
  bool has_all_places(int round, const std::vector<int>& members);
  void report_lost_ranks();
  std::vector<int> lost_places(int round, int nodes) const;

  // service.cpp
  Launcher& owner_of(int incarnation) { return launcher(services_.at(incarnation).launcher); }
  Process& host_of(int incarnation) { return owner_of(incarnation).process; }
  void begin_service(int index, std::int64_t created);
  void end_service(int incarnation, const char* why);
  void give_service(int incarnation, const elastic::NodeServiceInput& input);
  void carry_out(const elastic::NodeServiceOutput& output);
  void tick(int incarnation);

  // rendezvous.cpp
  void find(int index);
  void judge(int index, bool refused);
  void campaign(int index);
  bool holds_key(const Service& service) const;
  void keep_lease(int incarnation);
  void save_if_changed(int incarnation);

  // wires.cpp
  void connect(int index, int service);
  Time parted_until(int one, int other);
  void to_service(ConnectionId id, const elastic::FromNode& message);
  void to_launcher(ConnectionId id, const elastic::FromNodeService& message);
  void close_at_launcher(ConnectionId id);
  void close_at_service(ConnectionId id);
  void watch(ConnectionId id);
  milliseconds idle() const;

  // promises.cpp
  bool is_well(const Launcher& one) const;
  void check_state(const elastic::NodeJob& job, Service& service);
  void check_ranks_ended(const elastic::NodeJob& job);
  void check_lost(const elastic::NodeJob& job, std::string& why);
  void check_refusal(int index, const elastic::FromNodeService& message);
  void check_view(int index, const elastic::JobView& view);
  void check_old_round(int round, const std::vector<int>& members);
  void check_end();

  // faults.cpp
  void plan_faults();
  void strike(Fault fault);
  void count_fault(Fault fault, const std::string& what);
  int living_launcher(Chance& chance);
  void jump_clock();
  void start_stranger();

  const Circumstances circumstances_;
  Chance network_;
  Chance trouble_;
  Chance names_;
  Chance clocks_;

  std::vector<std::unique_ptr<Launcher>> launchers_;
  std::map<int, Service> services_;  ///< by incarnation
  int incarnations_ = 0;
  std::map<ConnectionId, Wire> wires_;
  ConnectionId next_wire_ = 1;
  std::map<int, Time> parted_;  ///< by launcher: nothing arrives before
  int coming_ = 0;              ///< launchers that start in the places of killed ones

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
  std::optional<elastic::JobState> closed_;
  int fails_ = 0;  ///< ranks that failed by themselves
  int wishes_ = 0;
  int grants_ = 0;
  int lost_ = 0;   ///< launchers that were killed, have left or could not be reached
  int round_ = 0;  ///< the newest
  int restarted_ = 0;
  bool failed_ = false;
  std::map<std::string, int> meetings_;  ///< the round of each
  std::map<int, int> replaced_nodes_;    ///< by round
  Time service_troubled_{};              ///< when a service began, or could not be reached
};

}  // namespace lockstep::simulation::launchers
