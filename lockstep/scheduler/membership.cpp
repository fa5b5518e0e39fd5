#include <lockstep/scheduler/membership.h>
#include <lockstep/scheduler/ranks.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace lockstep::scheduler {
namespace {

// How long a connection that broke may take to be replaced, before its process counts as gone.
constexpr std::chrono::milliseconds kReconnect{5000};

double seconds(std::chrono::steady_clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

bool is_over(const Member& member) { return member.phase == Phase::finished || member.phase == Phase::failed; }

// The place of a member whose process is known to be gone.
Admission take_place(const Roll& roll, const Member& holder, const std::string& how) {
  if (holder.phase == Phase::finished) {
    return {Verdict::refuse, fmt::format("{} has finished its work; the job needs no other", describe(holder)), {}};
  }
  if (const auto complete = find_completion(roll)) return {Verdict::refuse, *complete, {}};
  if (roll.generation > 0 && !roll.recovery) {
    return {Verdict::refuse,
            fmt::format("{} {}, and without recovery the job cannot go on: start all of it again, with "
                        "MS_ENABLE_RECOVERY=1 if it is to survive this",
                        describe(holder), how),
            {}};
  }
  return {Verdict::welcome, fmt::format("in the place of {}, which {}", describe(holder), how), holder.node_id};
}

Admission admit_known(const Roll& roll, const Applicant& applicant, const Member& holder, Time now) {
  if (holder.life == applicant.request.life) return {Verdict::welcome_back, "the same process is back", {}};
  if (holder.link == Link::closed) return take_place(roll, holder, "has lost its connection");
  const auto silence = now - holder.heard;
  if (silence >= roll.patience.silence) {
    return take_place(roll, holder, fmt::format("has been silent for {:.0f} s", seconds(silence)));
  }
  if (applicant.challenged && holder.heard > *applicant.challenged) {
    return {Verdict::refuse,
            fmt::format("the node id '{}' is that of {}, which is alive; give each worker its own MS_NODE_ID",
                        holder.node_id, describe(holder)),
            {}};
  }
  return {Verdict::challenge,
          fmt::format("{} may be alive: it has {:.0f} s to answer", describe(holder),
                      std::ceil(seconds(roll.patience.silence - silence))),
          {}};
}

Admission admit_unknown(const Roll& roll, const Applicant& applicant) {
  if (applicant.request.generation > 0) {
    return {Verdict::refuse, "its place was given to another worker while it was away", {}};
  }
  if (static_cast<int>(roll.members.size()) < roll.wanted) return {Verdict::welcome, "a place is free", {}};
  for (const Member& member : roll.members) {
    if (member.link != Link::closed || member.phase == Phase::finished) continue;
    if (roll.generation == 0 || roll.recovery) return take_place(roll, member, "has lost its connection");
  }
  return {Verdict::refuse,
          fmt::format("there are enough workers: {} of {} (MS_WORKER_NUM)", roll.members.size(), roll.wanted),
          {}};
}

// The place of a worker that was seated by a scheduler before this one, which could not save that: what is saved of the
// place is older.
const Member* find_older_self(const Roll& roll, const Register& request) {
  if (!roll.recovery || request.job.empty() || !request.rank || request.generation < roll.generation) return nullptr;
  const Member* member = find_member(roll, request.node_id);
  for (const Member& other : roll.members) {
    if (member == nullptr && other.rank == request.rank) member = &other;
  }
  if (member == nullptr || member->generation >= request.generation) return nullptr;
  // A replacement of this very worker (generation 0) is not older, it is the next.
  const bool untouched = member->link == Link::unknown && member->generation > 0;
  return request.generation > roll.generation || member->life == request.life || untouched ? member : nullptr;
}

void take_from(Roll& roll, Member& member, const Register& request) {
  member.rank = request.rank;
  member.generation = request.generation;
  member.phase = Phase::running;
  if (roll.generation >= request.generation) return;
  roll.generation = request.generation;
  roll.store_host.clear();  // rank 0 tells again
  roll.store_port = 0;
}

bool is_whole(const Roll& roll) {
  return static_cast<int>(roll.members.size()) == roll.wanted &&
         std::all_of(roll.members.begin(), roll.members.end(), [&](const Member& member) {
           const bool computes = member.phase == Phase::running && member.link == Link::open;
           return (computes || member.phase == Phase::finished) && member.generation == roll.generation;
         });
}

void lose(Roll& roll, const std::string& what, Time now) {
  if (roll.last_error.empty()) roll.last_error = what;
  if (!roll.broken) roll.broken = now;
  roll.changed = now;
}

bool is_missing(const Member& member) { return !is_over(member) && member.link != Link::open; }

std::string names_of(const Roll& roll, bool (*which)(const Member&)) {
  std::string text;
  for (const Member& member : roll.members) {
    if (which(member)) text += (text.empty() ? "" : ", ") + describe(member);
  }
  return text;
}

std::optional<Ending> end_of_start(const Roll& roll, Time now) {
  if (now - roll.changed < roll.patience.absence) return std::nullopt;
  return Ending{false, fmt::format("{} of {} workers are there, and no other came for {:.0f} s; start the others, or "
                                   "correct MS_WORKER_NUM, MS_SCHED_HOST and MS_SCHED_PORT where they run",
                                   count_present(roll), roll.wanted, seconds(now - roll.changed))};
}

std::optional<Ending> end_of_recovery(const Roll& roll, Time now) {
  if (count_present(roll) == roll.wanted || now - roll.changed < roll.patience.absence) return std::nullopt;
  return Ending{false,
                fmt::format("nobody came in the place of {} for {:.0f} s (first failure: {})",
                            names_of(roll, [](const Member& m) { return is_missing(m) || m.phase == Phase::failed; }),
                            seconds(now - roll.changed), roll.last_error)};
}

}  // namespace

Admission admit(const Roll& roll, const Applicant& applicant, Time now) {
  const Register& request = applicant.request;
  if (request.protocol != kProtocol) {
    return {Verdict::refuse,
            fmt::format("it speaks version {} of the protocol, the scheduler version {}; use the same version of "
                        "Lockstep everywhere",
                        request.protocol, kProtocol),
            {}};
  }
  if (request.node_id.empty() || request.life.empty()) return {Verdict::refuse, "it has no node id", {}};
  if (!request.job.empty() && request.job != roll.job) {
    return {Verdict::refuse,
            "it belongs to a job that this scheduler does not know; a scheduler that is to take its workers back "
            "needs MS_ENABLE_RECOVERY=1 and the same MS_RECOVERY_PATH as before",
            {}};
  }
  if (const Member* before = find_older_self(roll, request)) {
    return {
        Verdict::welcome_back,
        fmt::format("it has its place in generation {}, of which the saved state knows nothing", request.generation),
        before->node_id};
  }
  const Member* holder = find_member(roll, request.node_id);
  return holder != nullptr ? admit_known(roll, applicant, *holder, now) : admit_unknown(roll, applicant);
}

void enter(Roll& roll, const Applicant& applicant, const Admission& admission, Time now) {
  const Register& request = applicant.request;
  Member* member = find_member(roll, admission.replaces.value_or(request.node_id));
  if (member == nullptr) {
    member = &roll.members.emplace_back();
  } else if (admission.verdict == Verdict::welcome) {
    Member next;
    next.rank = member->rank;
    next.restarts = member->restarts + (roll.generation > 0 ? 1 : 0);
    next.last_error = member->last_error;
    *member = next;
  }
  member->node_id = request.node_id;
  member->named = request.named;
  member->life = request.life;
  member->host = request.host;
  member->machine = request.machine;
  member->pid = request.pid;
  member->address = applicant.address;
  member->connection = applicant.connection;
  member->link = Link::open;
  member->heard = now;
  roll.changed = now;
  if (admission.verdict != Verdict::welcome_back) return;
  if (request.generation > member->generation) take_from(roll, *member, request);
  if (is_whole(roll)) roll.broken.reset();  // connections alone were lost
}

void excuse_silence(Roll& roll, std::chrono::steady_clock::duration time) {
  for (Member& member : roll.members) member.heard += time;
}

bool seat_all(Roll& roll, const std::string& store_key, Time now) {
  const bool ready = static_cast<int>(roll.members.size()) == roll.wanted &&
                     std::all_of(roll.members.begin(), roll.members.end(), [](const Member& member) {
                       return member.phase == Phase::waiting && member.link == Link::open;
                     });
  if (!ready) return false;
  const auto ranks = choose_ranks(roll.members);
  ++roll.generation;
  roll.store_key = store_key;
  roll.store_host.clear();
  roll.store_port = 0;
  roll.changed = now;
  roll.broken.reset();
  for (std::size_t i = 0; i < roll.members.size(); ++i) {
    Member& member = roll.members[i];
    member.rank = ranks[i];
    member.generation = roll.generation;
    member.phase = Phase::running;
  }
  return true;
}

Seated seat_of(const Roll& roll, const Member& member) {
  Seated seat;
  seat.generation = member.generation;
  seat.rank = member.rank.value_or(0);
  seat.size = roll.wanted;
  seat.store_key = roll.store_key;
  seat.local_size = 0;
  for (const Member& other : roll.members) {
    if (other.machine != member.machine) continue;
    ++seat.local_size;
    if (other.rank < member.rank) ++seat.local_rank;
  }
  return seat;
}

std::optional<std::string> note_closed(Roll& roll, std::uint64_t connection, const std::string& reason, Time now) {
  Member* member = find_connection(roll, connection);
  if (member == nullptr) return std::nullopt;
  member->link = Link::closed;
  member->heard = now;  // by its kernel, or by the end of our patience
  if (is_over(*member)) return std::nullopt;
  const auto what = fmt::format("{} is lost: {}", describe(*member), reason);
  if (member->phase == Phase::running) {
    member->last_error = reason;
    lose(roll, what, now);
  }
  return what;
}

void note_leave(Roll& roll, Member& member, const Leave& leave, Time now) {
  member.phase = leave.ok ? Phase::finished : Phase::failed;
  if (leave.ok) return;
  member.last_error = leave.error;
  lose(roll, fmt::format("{} failed: {}", describe(member), leave.error), now);
}

std::vector<std::uint64_t> find_silent(const Roll& roll, Time now) {
  std::vector<std::uint64_t> silent;
  for (const Member& member : roll.members) {
    if (member.link == Link::open && now - member.heard >= roll.patience.silence) silent.push_back(member.connection);
  }
  return silent;
}

std::vector<std::uint64_t> find_hanging(const Roll& roll, Time now) {
  std::vector<std::uint64_t> hanging;
  if (!roll.broken || now - *roll.broken < roll.patience.hang) return hanging;
  for (const Member& member : roll.members) {
    if (member.phase == Phase::running && member.link == Link::open) hanging.push_back(member.connection);
  }
  return hanging;
}

bool note_again(Roll& roll, Member& member, const Again& again, Time now) {
  if (again.generation != roll.generation || member.generation != again.generation) return false;
  if (member.phase != Phase::running) return false;
  member.phase = Phase::waiting;
  roll.changed = now;
  if (!roll.broken) roll.broken = now;
  return true;
}

std::optional<std::string> find_completion(const Roll& roll) {
  if (!roll.recovery) return std::nullopt;
  const auto done = std::find_if(roll.members.begin(), roll.members.end(),
                                 [](const Member& member) { return member.phase == Phase::finished; });
  if (done == roll.members.end()) return std::nullopt;
  return fmt::format("{} has finished its work; the job needs no other", describe(*done));
}

State state_of(const Roll& roll) {
  const auto& members = roll.members;
  if (roll.generation == 0) return State::starting;
  if (std::all_of(members.begin(), members.end(), is_over)) return State::exit;
  return std::any_of(members.begin(), members.end(), is_missing) ? State::node_timeout : State::ready;
}

const char* name(State state) {
  switch (state) {
    case State::starting: return "CLUSTER_STARTING";
    case State::ready: return "CLUSTER_READY";
    case State::node_timeout: return "NODE_TIMEOUT";
    case State::exit: return "CLUSTER_EXIT";
  }
  return "?";
}

std::optional<Ending> find_ending(const Roll& roll, Time now) {
  const auto& members = roll.members;
  if (roll.generation == 0) return end_of_start(roll, now);
  const auto finished = [](const Member& member) { return member.phase == Phase::finished; };
  if (std::all_of(members.begin(), members.end(), finished)) return Ending{};
  const bool all_gone = std::all_of(members.begin(), members.end(), [&](const Member& member) {
    return is_over(member) || (member.link == Link::closed && now - member.heard >= kReconnect);
  });
  // Those who died after the last step of all missed nothing.
  if (roll.recovery && find_completion(roll)) return all_gone ? std::optional(Ending{}) : std::nullopt;
  if (roll.recovery) return end_of_recovery(roll, now);
  if (!all_gone) return std::nullopt;
  return Ending{false, roll.last_error};
}

}  // namespace lockstep::scheduler
