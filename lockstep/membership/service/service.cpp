// The scheduler's message handlers and its tick: losses, hanging workers, pending admissions, saving, the end.
#include <lockstep/base/error.h>
#include <lockstep/base/log.h>
#include <lockstep/base/secret.h>
#include <lockstep/membership/decisions.h>
#include <lockstep/membership/membership.h>
#include <lockstep/membership/service/saved_state.h>
#include <lockstep/membership/service/service.h>
#include <lockstep/membership/service/status.h>

#include <algorithm>

namespace lockstep::membership {
namespace {

constexpr auto kTellWaiting = std::chrono::seconds(10);
constexpr auto kAway = std::chrono::seconds(3);

Membership new_membership(const ServerOptions& options, Time now) {
  Membership membership;
  membership.job = random_token();
  membership.wanted = options.workers;
  membership.recovery = options.recovery;
  membership.programs_follow = options.programs_follow;
  membership.limits = options.limits;
  membership.changed = now;
  return membership;
}

// Reads the saved state into `membership`. False, with `membership` unchanged, when there is no state to continue from.
bool load(const StatePlace& place, Membership& membership, Time now) {
  const auto text = place.load();
  if (!text) return false;
  try {
    Membership saved = membership;
    read_state(*text, saved, now);
    if (state_of(saved) == State::exit) return false;  // a job that has ended
    membership = std::move(saved);
    return true;
  } catch (const Error& error) {
    fail(ErrorKind::data, "scheduler",
         "the state in '{}' cannot be used: {}; remove it, or set MS_RECOVERY_PATH to another place", place.name,
         error.message());
  }
}

}  // namespace

SchedulerService::SchedulerService(const ServerOptions& options, Time now)
    : options_(options), membership_(new_membership(options, now)), started_(now), ticked_(now), told_waiting_(now) {
  if (!options.state) return;
  if (load(*options.state, membership_, now)) {
    log_info("going on with job {} from {}: {} workers, generation {}", membership_.job, options.state->name,
             membership_.members.size(), membership_.generation);
  }
  writer_.emplace(*options.state);
  changed_ = true;
  save_if_changed();
}

void SchedulerService::greet(const std::shared_ptr<Connection>& connection) {
  connection->nonce = random_token();
  workers_.emplace(connection->id, connection);
  post(*connection, Hello{kProtocol, membership_.job, connection->nonce, !options_.secret.empty()});
}

void SchedulerService::receive(Connection& connection, const std::string& text, Time now) {
  if (connection.closing) return;
  const FromWorker message = parse_from_worker(text);
  if (auto* member = find_connection(membership_, connection.id)) member->heard = now;
  std::visit([&](const auto& one) { take(connection, one, now); }, message);
}

Member& SchedulerService::member_of(const Connection& connection) {
  if (auto* member = find_connection(membership_, connection.id)) return *member;
  fail(ErrorKind::data, "message", "it arrived before the process registered");
}

void SchedulerService::take(Connection& connection, const StoreAt& store, Time /*now*/) {
  const Member& member = member_of(connection);
  if (member.rank != 0 || store.generation != membership_.generation || member.phase != Phase::running) {
    fail(ErrorKind::data, "message", "a store of generation {} by {} does not belong to generation {}",
         store.generation, describe(member), membership_.generation);
  }
  membership_.store_host = store.host;
  membership_.store_port = store.port;
  changed_ = true;
  tell_running(store);
}

void SchedulerService::take(Connection& connection, const Heartbeat& heartbeat, Time /*now*/) {
  Member& member = member_of(connection);
  if (heartbeat.step) member.step = heartbeat.step;
  if (heartbeat.step_us && heartbeat.own_us) {
    member.step_time =
        StepTime{std::chrono::microseconds(*heartbeat.step_us), std::chrono::microseconds(*heartbeat.own_us)};
  }
}

void SchedulerService::dismiss(Connection& connection, const FromScheduler& last_message) {
  post(connection, last_message);
  close_politely(connection);
}

void SchedulerService::finish(Connection& connection, Member& member, const std::string& complete, Time now) {
  note_leave(membership_, member, {true, ""}, now);
  changed_ = true;
  dismiss(connection, Ended{true, complete});
}

// Some workers may lose another one in the last operation of all, and request the next generation before the first
// worker that completed it reports that. No process takes the lost worker's place any more. Ranks of a launcher that
// were never in the job are replacements, which the launcher ends.
void SchedulerService::finish_waiting(Time now) {
  const auto complete = find_completion(membership_);
  if (!complete) return;
  for (Member& member : membership_.members) {
    if (member.link != Link::open || member.phase != Phase::waiting) continue;
    if (membership_.programs_follow && member.generation == 0) continue;
    if (const auto found = workers_.find(member.connection); found != workers_.end()) {
      finish(*found->second, member, *complete, now);
    }
  }
}

void SchedulerService::take(Connection& connection, const Again& again, Time now) {
  Member& member = member_of(connection);
  if (!membership_.recovery) {
    return dismiss(connection, Ended{false, "this scheduler was started without MS_ENABLE_RECOVERY=1"});
  }
  if (const auto complete = find_completion(membership_)) return finish(connection, member, *complete, now);
  if (!note_again(membership_, member, again, now)) return;
  changed_ = true;
  tell_people(fmt::format("{} cannot continue in generation {}, and waits for the next: {}", describe(member),
                          again.generation, again.reason));
  tell_lost(member, again.reason, true);
  assign(now);
}

void SchedulerService::take(Connection& connection, const Leave& leave, Time now) {
  Member& member = member_of(connection);
  if (options_.programs_follow && connection.expelled) {  // its launcher replaces it after its end
    log_warning("{}: {}", describe(member), leave.error);
    return close_politely(connection);
  }
  note_leave(membership_, member, leave, now);
  changed_ = true;
  if (leave.ok) {
    log_info("{} is done", describe(member));
  } else {
    tell_people(fmt::format("{} failed: {}", describe(member), leave.error));
    // Other ranks of a launcher get the same error, or read it in the store. This rank is not replaced.
    if (!options_.programs_follow) tell_lost(member, leave.error, true);
  }
  close_politely(connection);
}

void SchedulerService::forget(Connection& connection, const std::string& reason, Time now) {
  workers_.erase(connection.id);
  const Member* member = find_connection(membership_, connection.id);
  const bool was_running = member != nullptr && member->phase == Phase::running;
  const auto lost = member != nullptr ? std::optional(*member) : std::nullopt;
  const auto what = note_closed(membership_, connection.id, reason, now);
  if (!what) return;
  changed_ = true;
  tell_people(*what);
  if (!was_running) return;
  const bool certain = !connection.close_reason.empty();
  if (certain) report_lost(*lost);
  tell_lost(*lost, reason, certain);
}

// Logs an event for users. Under a launcher only for debugging, because the launcher and its ranks report the same.
void SchedulerService::tell_people(const std::string& text) const {
  write_log(options_.programs_follow ? LogLevel::debug : LogLevel::warning, text);
}

void SchedulerService::report_lost(const Member& member) const {
  if (options_.on_lost) options_.on_lost(member.rank.value_or(-1), member.pid);
}

void SchedulerService::report_lost_ranks() {
  if (!options_.on_lost_ranks || membership_.generation == 0) return;
  auto lost = lost_ranks(membership_);
  if (lost == told_lost_) return;
  options_.on_lost_ranks(lost);
  told_lost_ = std::move(lost);
}

void SchedulerService::tell_lost(const Member& member, const std::string& reason, bool certain) {
  tell_running(Lost{membership_.generation, member.node_id, member.rank.value_or(0), reason, certain});
}

void SchedulerService::tell_running(const FromScheduler& message) {
  for (const Member& member : membership_.members) {
    if (member.link != Link::open || member.phase != Phase::running) continue;
    if (const auto found = workers_.find(member.connection); found != workers_.end()) post(*found->second, message);
  }
}

// Sends hanging workers the request to end. Such a worker answers with its stack (Leave) and ends; then its place is
// free.
void SchedulerService::expel_hanging(Time now) {
  for (const auto connection : find_hanging(membership_, now)) {
    const auto found = workers_.find(connection);
    if (found == workers_.end() || std::exchange(found->second->expelled, true)) continue;
    const Member& member = *find_connection(membership_, connection);
    log_warning("{} hangs: others have waited {:.0f} s for it to notice that they cannot continue", describe(member),
                seconds_in(now - *membership_.broken));
    report_lost(member);
    post(*found->second, Ended{false, membership_.recovery ? "this worker hangs, and another one takes its place"
                                                           : "this worker hangs, and the job cannot go on without it"});
  }
}

void SchedulerService::tell_waiting(Time now) {
  if (now - told_waiting_ < kTellWaiting) return;
  told_waiting_ = now;
  for (const Member& member : membership_.members) {
    if (member.link != Link::open || member.phase != Phase::waiting) continue;
    if (const auto found = workers_.find(member.connection); found != workers_.end()) {
      post(*found->second, Wait{count_present(membership_), membership_.wanted, describe_missing(membership_)});
    }
  }
}

std::optional<Ending> SchedulerService::tick(Time now) {
  // A scheduler that was stopped, or got no CPU time, has not read the heartbeats in its sockets.
  if (const auto away = now - std::exchange(ticked_, now); away > kAway) {
    log_warning(
        "the scheduler did nothing for {:.0f} s; this time does not count towards the heartbeat limit of any worker",
        seconds_in(away));
    excuse_missed_heartbeats(membership_, away);
  }
  for (const auto connection : find_missed_heartbeats(membership_, now)) {
    const auto found = workers_.find(connection);
    if (found != workers_.end())
      close(*found->second,
            fmt::format("it sent nothing for {:.0f} s", seconds_in(membership_.limits.heartbeat_limit)));
  }
  report_lost_ranks();
  expel_hanging(now);
  decide_pending(now);
  finish_waiting(now);
  tell_waiting(now);
  auto ending = find_ending(membership_, now);
  save_if_changed();
  if (!ending) return std::nullopt;
  for (const auto& [id, connection] : workers_) {
    const bool of_next_job = connection->asking && connection->asking->put_off;
    if (!of_next_job) post(*connection, Ended{ending->ok, ending->reason});
    close_politely(*connection);
  }
  return ending;
}

void SchedulerService::save_if_changed() {
  if (std::exchange(changed_, false) && writer_) writer_->put(print_state(membership_));
}

std::string SchedulerService::status(Time now) const {
  return status_json(membership_, {options_.version, options_.tls != nullptr, options_.state.has_value(), started_},
                     now);
}

}  // namespace lockstep::membership
