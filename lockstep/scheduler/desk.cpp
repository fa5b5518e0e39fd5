#include <lockstep/base/error.h>
#include <lockstep/base/log.h>
#include <lockstep/scheduler/desk.h>
#include <lockstep/scheduler/membership.h>
#include <lockstep/scheduler/saved_state.h>
#include <lockstep/scheduler/seconds.h>
#include <lockstep/scheduler/secret.h>
#include <lockstep/scheduler/status_json.h>

#include <algorithm>

namespace lockstep::scheduler {
namespace {

constexpr auto kTellWaiting = std::chrono::seconds(10);
constexpr auto kAway = std::chrono::seconds(3);

Roll new_roll(const ServerOptions& options, Time now) {
  Roll roll;
  roll.job = random_token();
  roll.wanted = options.workers;
  roll.recovery = options.recovery;
  roll.patience = options.patience;
  roll.changed = now;
  return roll;
}

// False, and `roll` as it was, where there is nothing to go on with.
bool load(const StatePlace& place, Roll& roll, Time now) {
  const auto text = place.load();
  if (!text) return false;
  try {
    Roll saved = roll;
    read_state(*text, saved, now);
    if (state_of(saved) == State::exit) return false;  // of a job that is over
    roll = std::move(saved);
    return true;
  } catch (const Error& error) {
    fail(ErrorKind::data, "scheduler",
         "the state in '{}' cannot be used: {}; remove it, or set MS_RECOVERY_PATH to another place", place.name,
         error.message());
  }
}

}  // namespace

Desk::Desk(const ServerOptions& options, Time now)
    : options_(options), roll_(new_roll(options, now)), started_(now), ticked_(now), told_waiting_(now) {
  if (!options.state) return;
  if (load(*options.state, roll_, now)) {
    log_info("going on with job {} from {}: {} workers, generation {}", roll_.job, options.state->name,
             roll_.members.size(), roll_.generation);
  }
  writer_.emplace(*options.state);
  changed_ = true;
  save_if_changed();
}

void Desk::greet(const std::shared_ptr<Session>& session) {
  session->nonce = random_token();
  workers_.emplace(session->id, session);
  post(*session, Hello{kProtocol, roll_.job, session->nonce, !options_.secret.empty()});
}

void Desk::hear(Session& session, const std::string& text, Time now) {
  if (session.closing) return;
  const FromWorker message = parse_from_worker(text);
  if (auto* member = find_connection(roll_, session.id)) member->heard = now;
  std::visit([&](const auto& one) { take(session, one, now); }, message);
}

Member& Desk::member_of(const Session& session) {
  if (auto* member = find_connection(roll_, session.id)) return *member;
  fail(ErrorKind::data, "message", "it came before it registered");
}

void Desk::take(Session& session, const StoreAt& store, Time /*now*/) {
  const Member& member = member_of(session);
  if (member.rank != 0 || store.generation != roll_.generation || member.phase != Phase::running) {
    fail(ErrorKind::data, "message", "a store of generation {} by {} is none of generation {}", store.generation,
         describe(member), roll_.generation);
  }
  roll_.store_host = store.host;
  roll_.store_port = store.port;
  changed_ = true;
  tell_running(store);
}

void Desk::take(Session& session, const Beat& beat, Time /*now*/) {
  Member& member = member_of(session);
  if (beat.step) member.step = beat.step;
  if (beat.step_us && beat.own_us) {
    member.step_time = StepTime{std::chrono::microseconds(*beat.step_us), std::chrono::microseconds(*beat.own_us)};
  }
}

void Desk::take(Session& session, const Again& again, Time now) {
  Member& member = member_of(session);
  const auto dismiss = [&](bool ok, const std::string& reason) {
    post(session, Ended{ok, reason});
    close_politely(session);
  };
  if (!roll_.recovery) return dismiss(false, "this scheduler was started without MS_ENABLE_RECOVERY=1");
  if (const auto complete = find_completion(roll_)) {
    note_leave(roll_, member, {true, ""}, now);
    changed_ = true;
    return dismiss(true, *complete);
  }
  if (!note_again(roll_, member, again, now)) return;
  changed_ = true;
  log_warning("{} cannot go on in generation {}, and waits for the next: {}", describe(member), again.generation,
              again.reason);
  tell_lost(member, again.reason, true);
  seat(now);
}

void Desk::take(Session& session, const Leave& leave, Time now) {
  Member& member = member_of(session);
  note_leave(roll_, member, leave, now);
  changed_ = true;
  if (leave.ok) {
    log_info("{} is done", describe(member));
  } else {
    log_warning("{} failed: {}", describe(member), leave.error);
    tell_lost(member, leave.error, true);
  }
  close_politely(session);
}

void Desk::forget(Session& session, const std::string& reason, Time now) {
  workers_.erase(session.id);
  const Member* member = find_connection(roll_, session.id);
  const bool was_running = member != nullptr && member->phase == Phase::running;
  const auto lost = member != nullptr ? std::optional(*member) : std::nullopt;
  const auto what = note_closed(roll_, session.id, reason, now);
  if (!what) return;
  changed_ = true;
  log_warning("{}", *what);
  if (was_running) tell_lost(*lost, reason, !session.close_reason.empty());
}

void Desk::tell_lost(const Member& member, const std::string& reason, bool certain) {
  tell_running(Lost{roll_.generation, member.node_id, member.rank.value_or(0), reason, certain});
}

void Desk::tell_running(const FromScheduler& message) {
  for (const Member& member : roll_.members) {
    if (member.link != Link::open || member.phase != Phase::running) continue;
    if (const auto found = workers_.find(member.connection); found != workers_.end()) post(*found->second, message);
  }
}

// It answers with where it hangs (Leave), and ends; its place is free then.
void Desk::expel_hanging(Time now) {
  for (const auto connection : find_hanging(roll_, now)) {
    const auto found = workers_.find(connection);
    if (found == workers_.end() || std::exchange(found->second->expelled, true)) continue;
    const Member& member = *find_connection(roll_, connection);
    log_warning("{} hangs: others have waited {:.0f} s for it to notice that they cannot go on", describe(member),
                seconds_in(now - *roll_.broken));
    post(*found->second, Ended{false, roll_.recovery ? "this worker hangs, and another is to take its place"
                                                     : "this worker hangs, and the job cannot go on without it"});
  }
}

void Desk::tell_waiting(Time now) {
  if (now - told_waiting_ < kTellWaiting) return;
  told_waiting_ = now;
  for (const Member& member : roll_.members) {
    if (member.link != Link::open || member.phase != Phase::waiting) continue;
    if (const auto found = workers_.find(member.connection); found != workers_.end()) {
      post(*found->second, Wait{count_present(roll_), roll_.wanted, ""});
    }
  }
}

std::optional<Ending> Desk::tick(Time now) {
  // A scheduler that was stopped, or starved, has not heard what lies in its sockets.
  if (const auto away = now - std::exchange(ticked_, now); away > kAway) {
    log_warning("the scheduler did nothing for {:.0f} s; that is held against no worker", seconds_in(away));
    excuse_silence(roll_, away);
  }
  for (const auto connection : find_silent(roll_, now)) {
    const auto found = workers_.find(connection);
    if (found != workers_.end())
      close(*found->second, fmt::format("nothing was heard of it for {:.0f} s", seconds_in(roll_.patience.silence)));
  }
  expel_hanging(now);
  decide_pending(now);
  tell_waiting(now);
  auto ending = find_ending(roll_, now);
  save_if_changed();
  if (!ending) return std::nullopt;
  for (const auto& [id, session] : workers_) {
    const bool of_next_job = session->asking && session->asking->put_off;
    if (!of_next_job) post(*session, Ended{ending->ok, ending->reason});
    close_politely(*session);
  }
  return ending;
}

void Desk::save_if_changed() {
  if (std::exchange(changed_, false) && writer_) writer_->put(print_state(roll_));
}

std::string Desk::status(Time now) const {
  return status_json(roll_, {options_.version, options_.tls != nullptr, options_.state.has_value(), started_}, now);
}

}  // namespace lockstep::scheduler
