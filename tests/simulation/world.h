// The parts of a simulated life: what was drawn for it, its processes, its connections, and its model of training.
#pragma once

#include <lockstep/membership/service/service.h>
#include <lockstep/membership/service/state_writer.h>
#include <lockstep/membership/session/session.h>

#include <algorithm>
#include <array>
#include <iosfwd>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "simulation/frame.h"

namespace lockstep::simulation {

using membership::ConnectionId;
using membership::FromScheduler;
using membership::FromWorker;
using std::chrono::seconds;

/// What is drawn once for a life.
struct Circumstances {
  int workers = 4;
  int servers = 0;
  int programs = 1;  ///< of a launcher: one after another
  int steps = 50;
  int restarts = 10;  ///< of processes, by the launcher or whoever starts them
  bool recovery = true;
  bool launcher = false;  ///< the service is a launcher's, else a scheduler
  bool named = true;
  bool saves = true;
  bool secret = false;
  bool slow_end = false;  ///< workers write their results before they report their end
  membership::TimeLimits limits{};
  milliseconds heartbeat{3000};
  milliseconds latency{1};  ///< at least
  milliseconds step{50};    ///< of training
  milliseconds disk{1};
  milliseconds start{1000};  ///< until a process has started
  milliseconds collective_limit{60000};
  int notice = 700;  ///< per mille: a lost connection between two workers is noticed by the other one
  milliseconds start_limit{300000};
  milliseconds faults_for{60000};
  std::array<int, kFaults> rates{};  ///< mean faults of a kind in that time; 0: none
  bool completes = false;            ///< none of its faults is a reason to give up

  bool has(Fault fault) const { return rates[static_cast<std::size_t>(fault)] > 0; }
};

/// A connection of a worker with the service.
struct Wire {
  ConnectionId id = 0;
  int worker = 0;         ///< index
  int service = 0;        ///< the incarnation of the service
  bool at_worker = true;  ///< not closed on this side
  bool at_service = true;
  Time made{};
  Time to_service{};  ///< when the last message arrives
  Time to_worker{};
  Time heard{};  ///< by the worker
};

/// The model of a generation's computation.
struct Computation {
  std::int64_t generation = 0;
  int size = 0;
  std::map<int, int> members;  ///< rank -> worker, of those that have met
  bool started = false;
  bool abandoned = false;  ///< a member left before all had met
  std::string store_host;  ///< that of its rank 0
  std::int64_t step = 0;
  std::map<int, int> contributed;  ///< to `step`
};

enum class Doing { starting, registering, meeting, computing, waiting, writing, leaving, gone };

struct Worker {
  Process process;
  int slot = 0;
  bool lost_host = false;  ///< no notice of its end reaches any peer
  membership::SessionState session;
  std::optional<ConnectionId> wire;
  milliseconds back_off{100};
  Doing doing = Doing::starting;
  std::optional<membership::RankAssignment> place;
  std::string key;  ///< of its computation
  bool hung = false;
  bool odd = false;       ///< a twin or a stranger: not of the job
  bool stranger = false;  ///< it must never get a rank
  std::int64_t steps = 0;
  std::uint64_t hash = 0;
  std::uint64_t turn = 0;      ///< counts what it did, so that old timers are recognized
  Time delivered{};            ///< when the service got its last message
  std::int64_t reported = -1;  ///< the last step that the service has a heartbeat of
  Time advanced{};             ///< when that changed
  std::int64_t gave_up = 0;    ///< the newest generation of which the service has its report that it cannot continue
};

/// The member that has a place, as the service sees it.
struct Holder {
  std::string node_id;
  std::string life;
  std::int64_t generation = 0;
  bool connected = false;
};

/// A place of the job: one process after another.
struct Slot {
  int worker = -1;
  int restarts = 0;
  int programs = 0;  ///< completed
  bool given_up = false;
};

/// The whole simulation; see the files for its parts.
class Life final : Frame {
 public:
  Life(std::uint64_t seed, std::ostream* trace);
  Outcome run();

 private:
  // life.cpp
  milliseconds latency() { return circumstances_.latency + network_.time(milliseconds(0), milliseconds(20)); }
  bool all_gone() const;
  std::string describe_left() const;
  void end_job(const std::string& why);

  // service_process.cpp
  void start_service();
  void kill_service(const char* why);
  void tick_service(int incarnation);
  void give_service(const membership::ServiceInput& input);
  Time service_now() const { return timeline_.now() + service_ahead_; }
  void carry_out(std::vector<membership::ServiceOutput> outputs, std::size_t from);
  void carry_out(const membership::Send& send);
  void carry_out(const membership::Close& close);
  void carry_out(const membership::LogLine& line);
  void carry_out(const membership::Refusal& refusal);
  void carry_out(const membership::ProcessLost& lost);
  void carry_out(const membership::ProcessBack& back);
  void carry_out(const membership::RanksLost& /*lost*/) {}
  void carry_out(const membership::JobEnded& job);
  milliseconds save(bool is_last);

  // worker_process.cpp
  int start_worker(int slot);
  void start_odd(int slot, bool twin);
  void connect(int index);
  void give_worker(int index, const membership::SessionInput& input);
  void look(int index);
  void end_worker(int index, int code, const std::string& why);
  void slot_ended(int slot, int worker, int code);
  void end_late(int slot);
  void beat(int index);
  Worker& worker(int index) { return *workers_[static_cast<std::size_t>(index)]; }

  // training.cpp
  void enter(int index);
  void meet(int index);
  void contribute(int index);
  void complete(int index, std::int64_t generation, std::int64_t step);
  void go_on(int index, const std::string& why);
  void await_generation(int index, std::uint64_t turn, Time heard);
  void leave_computation(int index);
  void finish(int index);
  void report_finish(int index);
  void await_end(int index);

  // promises.cpp
  void check_generation(const std::vector<membership::ServiceOutput>& outputs);
  void check_assignment(const membership::RankAssignment& assignment, int worker);
  void check_places();
  void check_outputs(const std::vector<membership::ServiceOutput>& outputs);
  void check_lost(const membership::Lost& lost);
  void check_ended(const membership::Ended& ended, int index);
  Worker* find_life(const std::string& life);
  bool is_well(const Worker& one, milliseconds heard_within);
  void check_waiting();
  void check_replaced(const std::string& life);
  void check_late(int index);

  // wires.cpp
  void to_service(Wire& wire, FromWorker message);
  void to_worker(Wire& wire, FromScheduler message);
  void close_at_worker(ConnectionId id);
  void close_at_service(ConnectionId id, const std::string& reason, bool by_service);
  void watch_wire(ConnectionId id);
  Wire* find_wire(ConnectionId id);

  // faults.cpp
  void plan_faults();
  void strike(Fault fault);
  void count_fault(Fault fault, const std::string& what);
  void strike_service();
  void jump_clock();
  void reset_wire(int index);
  int living_worker();
  int count_hung() const;

  Circumstances circumstances_;
  Chance network_;
  Chance disk_;
  Chance pace_;
  Chance trouble_;
  Chance names_;
  Chance clocks_;

  Process service_;
  Time::duration service_ahead_{};  ///< its clock, of the simulated time
  Time jumped_{};                   ///< when that changed
  int incarnation_ = 0;
  std::optional<membership::ServiceState> state_;
  std::optional<std::string> saved_;
  std::uint64_t saves_ = 0;
  std::uint64_t saved_number_ = 0;
  std::int64_t asked_to_save_ = 0;  ///< the newest generation that this service has passed to the disk, or read there
  bool job_over_ = false;           ///< nothing is started any more

  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<Slot> slots_;
  std::map<ConnectionId, Wire> wires_;
  ConnectionId next_wire_ = 1;
  std::int64_t next_pid_ = 100;
  std::set<std::int64_t> lost_;            ///< processes that a launcher's service reported as lost, and not as back
  std::map<int, Time> parted_to_service_;  ///< by slot: messages arrive after that time
  std::map<int, Time> parted_to_worker_;
  Time disk_slow_until_{};

  std::map<std::string, Computation> computations_;
  std::map<std::string, std::int64_t> newest_;  ///< by job: the newest generation that completed a step
  std::map<std::string, std::string> keys_;     ///< "job generation" -> store key
  std::set<std::string> formed_;                ///< keys of generations
  std::set<std::string> durable_;               ///< "job generation key", once it is saved
  std::map<std::string, std::string> holders_;  ///< "job generation rank" -> life
  std::map<std::string, int> ranks_;            ///< "job node id" -> rank
  std::vector<Holder> places_;                  ///< as of the last step of the service
  std::map<std::string, Time> given_up_;        ///< store key -> when the service got the first report of a loss
  Time service_started_{};
  int completed_ = 0;              ///< jobs of a launcher
  bool service_reported_ = false;  ///< the service has reported the end of its job
  bool kill_at_save_ = false;      ///< the next save of a new generation is the service's last
};

/// The hash of a run after `steps` steps.
std::uint64_t hash_after(std::int64_t steps);
std::uint64_t next_hash(std::uint64_t hash, std::int64_t step);

}  // namespace lockstep::simulation
