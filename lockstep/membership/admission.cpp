// The rules for a registering worker: welcome, welcome back, challenge, put off or refuse, and the member that it
// replaces.
#include <lockstep/membership/admission.h>
#include <lockstep/membership/decisions.h>
#include <lockstep/membership/membership.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace lockstep::membership {
namespace {

// The answer to the next job's program, which may register as soon as the first worker of this job has finished. With
// recovery the scheduler cannot distinguish it from a late replacement of a worker, which is not needed any more; a
// launcher can distinguish them, and ends replacements.
Admission put_off(const Member& finished) {
  return {
      Verdict::put_off,
      fmt::format("the previous job is ending, as {} has finished its work; this one then needs a scheduler of its own",
                  describe(finished)),
      {}};
}

// The place of a member whose process has certainly ended.
Admission take_place(const Membership& membership, const Member& holder, const std::string& how) {
  const bool waits = !membership.recovery || membership.programs_follow;
  if (holder.phase == Phase::finished && waits) return put_off(holder);
  if (holder.phase == Phase::finished) {
    return {Verdict::refuse, fmt::format("{} has finished its work; the job needs no other", describe(holder)), {}};
  }
  if (const auto complete = find_completion(membership)) {
    if (membership.programs_follow) return {Verdict::put_off, *complete, {}};
    return {Verdict::refuse, *complete, {}};
  }
  if (membership.generation > 0 && !membership.recovery) {
    return {Verdict::refuse,
            fmt::format("{} {}, and without recovery the job cannot go on: start the whole job again, with "
                        "MS_ENABLE_RECOVERY=1 so that it survives such a loss",
                        describe(holder), how),
            {}};
  }
  return {Verdict::welcome, fmt::format("in the place of {}, which {}", describe(holder), how), holder.node_id};
}

Admission admit_known(const Membership& membership, const Applicant& applicant, const Member& holder, Time now) {
  if (holder.life == applicant.request.life) return {Verdict::welcome_back, "the same process has connected again", {}};
  const int turn = applicant.request.turn.value_or(0);
  if (turn > holder.turn) return take_place(membership, holder, "was on a node that is replaced");
  if (turn < holder.turn) return {Verdict::refuse, "its node was lost, and another one has its ranks", {}};
  if (holder.link == Link::closed) return take_place(membership, holder, "has lost its connection");
  const auto since_heartbeat = now - holder.heard;
  if (since_heartbeat >= membership.limits.heartbeat_limit) {
    return take_place(membership, holder,
                      fmt::format("has sent no heartbeat for {:.0f} s", seconds_in(since_heartbeat)));
  }
  // Another holder than the one that was asked may have registered since, and be dead by now.
  const bool asked = applicant.challenged && applicant.challenged_life == holder.life;
  if (asked && holder.heard > *applicant.challenged) {
    return {Verdict::refuse,
            fmt::format("the node id '{}' is that of {}, which is alive; give each worker its own MS_NODE_ID, and "
                        "where it is the same process, end its first group (or Trainer) before it makes another",
                        holder.node_id, describe(holder)),
            {}};
  }
  return {Verdict::challenge,
          fmt::format("{} may be alive: it has {:.0f} s to answer", describe(holder),
                      std::ceil(seconds_in(membership.limits.heartbeat_limit - since_heartbeat))),
          {}};
}

int count_of_role(const Membership& membership, bool server) {
  return static_cast<int>(std::ranges::count(membership.members, server, &Member::server));
}

// The place of a member that was connected to a scheduler which has died since: it may reconnect.
Admission admit_for_unknown(const Membership& membership, const Member& holder, Time now) {
  const auto since = now - holder.heard;
  if (since >= membership.limits.heartbeat_limit) {
    return take_place(membership, holder, fmt::format("has not reconnected for {:.0f} s", seconds_in(since)));
  }
  return {Verdict::challenge,
          fmt::format("{} may be alive: it has {:.0f} s to reconnect", describe(holder),
                      std::ceil(seconds_in(membership.limits.heartbeat_limit - since))),
          {}};
}

Admission admit_unknown(const Membership& membership, const Applicant& applicant, Time now) {
  if (applicant.request.generation > 0) {
    return {Verdict::refuse, "its place was given to another worker while it was disconnected", {}};
  }
  const bool server = applicant.request.server;
  const int servers = membership.members.empty() ? applicant.request.servers.value_or(0) : membership.servers;
  const int places = server ? servers : membership.wanted - membership.servers;
  if (count_of_role(membership, server) < places) return {Verdict::welcome, "a place is free", {}};
  const bool may_replace = membership.generation == 0 || membership.recovery;
  const Member* unknown = nullptr;
  const Member* closed = nullptr;  // on the machine of the applicant, if there is one: the others may reconnect
  for (const Member& member : membership.members) {
    if (member.server != server || member.phase == Phase::finished || !may_replace) continue;
    const bool is_near = member.machine == applicant.request.machine;
    if (member.link == Link::closed && (closed == nullptr || (is_near && closed->machine != member.machine)))
      closed = &member;
    if (member.link == Link::unknown && (unknown == nullptr || member.heard < unknown->heard)) unknown = &member;
  }
  if (closed != nullptr) return take_place(membership, *closed, "has lost its connection");
  if (unknown != nullptr) return admit_for_unknown(membership, *unknown, now);
  const auto done = std::find_if(membership.members.begin(), membership.members.end(),
                                 [](const Member& member) { return member.phase == Phase::finished; });
  if (done != membership.members.end() && !membership.recovery) return put_off(*done);
  return {Verdict::refuse,
          fmt::format("there are enough {}: {} of {} ({})", server ? "parameter servers" : "workers",
                      count_of_role(membership, server), places, server ? "MS_SERVER_NUM" : "MS_WORKER_NUM"),
          {}};
}

// The member whose place in the saved state is that of this worker, by its id or its rank.
const Member* find_saved_place(const Membership& membership, const Register& request) {
  if (const Member* same = find_member(membership, request.node_id)) return same;
  for (const Member& other : membership.members) {
    if (other.rank == request.rank) return &other;
  }
  return nullptr;
}

// The place of a worker that got its rank from an earlier scheduler, which could not save that: the saved data of the
// place are older, or the place is free there.
std::optional<Admission> admit_unsaved(const Membership& membership, const Register& request) {
  if (!membership.recovery || request.job.empty() || !request.rank || request.generation < membership.generation)
    return std::nullopt;
  Admission admission{
      Verdict::welcome_back,
      fmt::format("it has its place in generation {}, which the saved state does not have", request.generation),
      {}};
  const Member* member = find_saved_place(membership, request);
  if (member == nullptr) {
    const bool is_unsaved = request.generation > membership.saved_generation;
    const bool has_place = static_cast<int>(membership.members.size()) < membership.wanted;
    return is_unsaved && has_place ? std::optional(std::move(admission)) : std::nullopt;
  }
  if (member->generation >= request.generation) return std::nullopt;
  // A replacement of this worker, which has registered with this scheduler, is newer, not older. The key of the store
  // shows that a worker is of the newest generation, which another one has reported already.
  const bool has_key = !request.store_key.empty() && request.store_key == membership.store_key;
  const bool is_older =
      is_outdated(membership, *member) || (member->link == Link::closed && has_key && member->generation > 0);
  if (request.generation <= membership.generation && member->life != request.life && !is_older) return std::nullopt;
  admission.replaces = member->node_id;
  return admission;
}

void take_from(Membership& membership, Member& member, const Register& request) {
  // With random ids it may have been in another place when the state was saved: the two places change their ranks.
  for (Member& other : membership.members) {
    if (other.rank && other.rank == request.rank) other.rank = member.rank;
  }
  member.rank = request.rank;
  member.generation = request.generation;
  member.phase = Phase::running;
  if (membership.generation >= request.generation) return;
  membership.generation = request.generation;
  if (!request.store_key.empty()) membership.store_key = request.store_key;
  membership.store_host.clear();  // rank 0 will publish it again
  membership.store_port = 0;
}

// Whether the worker's generation has the number of the newest one, and is another: two services, one after the other,
// each formed it and could not save it. The worker has to wait for the next generation.
bool is_of_namesake(const Membership& membership, const Register& request) {
  return request.generation == membership.generation && !request.store_key.empty() && !membership.store_key.empty() &&
         request.store_key != membership.store_key;
}

// Whether a worker waits that has no place in the newest generation. It registered with this service, so it is in no
// generation that an earlier one could not save.
bool is_incomplete(const Membership& membership) {
  return std::ranges::any_of(membership.members, [&](const Member& member) {
    return member.phase == Phase::waiting && member.connection != 0 && member.generation < membership.generation;
  });
}

bool is_whole(const Membership& membership) {
  return static_cast<int>(membership.members.size()) == membership.wanted &&
         std::all_of(membership.members.begin(), membership.members.end(), [&](const Member& member) {
           const bool computes = member.phase == Phase::running && member.link == Link::open;
           return (computes || member.phase == Phase::finished) && member.generation == membership.generation;
         });
}

}  // namespace

Admission admit(const Membership& membership, const Applicant& applicant, Time now) {
  const Register& request = applicant.request;
  if (request.protocol != kProtocol) {
    return {Verdict::refuse,
            fmt::format("it uses version {} of the protocol, and the scheduler uses version {}; use the same version "
                        "of Lockstep everywhere",
                        request.protocol, kProtocol),
            {}};
  }
  if (request.node_id.empty() || request.life.empty()) return {Verdict::refuse, "it has no node id", {}};
  if (!request.job.empty() && request.job != membership.job) {
    return {Verdict::refuse,
            "it belongs to a job that this scheduler does not have; to accept the workers of an earlier job again, a "
            "scheduler needs MS_ENABLE_RECOVERY=1 and the same MS_RECOVERY_PATH as before",
            {}};
  }
  if (auto unsaved = admit_unsaved(membership, request)) return *std::move(unsaved);
  if (!membership.members.empty() && request.servers.value_or(0) != membership.servers) {
    return {Verdict::refuse,
            fmt::format("it belongs to a job with {} parameter server(s), and the others to a job with {}; give all "
                        "processes the same MS_SERVER_NUM and parallel.mode",
                        request.servers.value_or(0), membership.servers),
            {}};
  }
  const Member* holder = find_member(membership, request.node_id);
  if (holder != nullptr && holder->server != request.server) {
    return {Verdict::refuse,
            fmt::format("the node id '{}' is that of a {}; give each process its own MS_NODE_ID", request.node_id,
                        holder->server ? "parameter server" : "worker"),
            {}};
  }
  return holder != nullptr ? admit_known(membership, applicant, *holder, now)
                           : admit_unknown(membership, applicant, now);
}

void enter(Membership& membership, const Applicant& applicant, const Admission& admission, Time now) {
  const Register& request = applicant.request;
  Member* member = find_member(membership, admission.replaces.value_or(request.node_id));
  if (member == nullptr) {
    if (membership.members.empty()) {
      membership.wanted += request.servers.value_or(0) - membership.servers;
      membership.servers = request.servers.value_or(0);
    }
    member = &membership.members.emplace_back();
  } else if (admission.verdict == Verdict::welcome) {
    if (member->phase == Phase::running || is_outdated(membership, *member)) note_over(membership, now);
    Member next;
    next.rank = member->rank;
    next.restarts = member->restarts + (membership.generation > 0 ? 1 : 0);
    next.last_error = member->last_error;
    *member = next;
  } else if (member->life != request.life) {
    ++member->restarts;
    member->step.reset();
    member->step_time.reset();
    member->page.reset();
    member->memory.reset();
  }
  member->node_id = request.node_id;
  member->named = request.named;
  member->life = request.life;
  member->turn = request.turn.value_or(0);
  member->host = request.host;
  member->machine = request.machine;
  member->pid = request.pid;
  member->server = request.server;
  member->address = applicant.address;
  member->connection = applicant.connection;
  member->link = Link::open;
  member->heard = member->entered = now;
  membership.changed = now;
  const bool is_back = admission.verdict == Verdict::welcome_back;
  const bool is_newer = request.generation > member->generation && !is_of_namesake(membership, request);
  if (is_back && is_newer) take_from(membership, *member, request);
  if (is_incomplete(membership)) note_over(membership, now);
  if (!is_back || !is_whole(membership)) return;  // else only connections were lost
  membership.broken.reset();
  membership.over.reset();
}

}  // namespace lockstep::membership
