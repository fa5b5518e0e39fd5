#include <lockstep/base/error.h>
#include <lockstep/cluster/elastic/agent_membership.h>
#include <lockstep/cluster/elastic/store_users.h>

#include <algorithm>
#include <utility>

namespace lockstep::cluster::elastic {

AgentMembership::AgentMembership(KeyValueStorePtr store, const std::string& job, NodeDescription node,
                                 const Policy& policy, Pace pace, bool store_has_holder)
    : store_(std::move(store)),
      keys_(job),
      node_(std::move(node)),
      policy_(policy),
      pace_(pace),
      store_has_holder_(store_has_holder) {}

void AgentMembership::join(Time now) {
  read_state();
  if (state_.phase == Phase::closed) {
    fail(ErrorKind::invalid_argument, "rendezvous",
         "the job of this --rdzv_id has already ended at {} ({}); give a new job an --rdzv_id of its own",
         store_->describe(), state_.why);
  }
  if (store_has_holder_) enter_store(*store_);
  ticket_ = store_->add(keys_.arrivals(), 1);
  joined_ = now;
  store_->set(keys_.node(ticket_), to_text(node_));
  send_heartbeat(now);
}

void AgentMembership::say(const NodeReport& report) {
  const auto heartbeat = report_.heartbeat;
  const auto heard = report_.heard;
  report_ = report;
  report_.heartbeat = heartbeat;
  report_.heard = heard;
  changed_ = true;
}

void AgentMembership::tick(Time now) {
  read_state();
  if (!text_) begin_job(now);
  if (state_.coordinator != ticket_) {
    coordinator_.reset();
    watch_coordinator(now);
  }
  if (changed_ || !sent_ || now - *sent_ >= pace_.heartbeat) send_heartbeat(now);
  if (!text_ || state_.coordinator != ticket_) return;
  if (!coordinator_) coordinator_.emplace(*store_, keys_, policy_, ticket_);
  coordinator_->tick(state_, *text_, now);
  read_state();
}

void AgentMembership::excuse(Time begin, Time end) {
  if (end - begin < pace_.heartbeat) return;
  if (begin - watched_changed_ < policy_.silence) watched_changed_ = end;
  if (coordinator_) coordinator_->excuse(begin, end);
}

std::chrono::milliseconds AgentMembership::interval() const {
  constexpr int kManyNodes = 200;  // a store answers some ten thousand requests a second
  const int crowd = std::max(1, state_.nodes / kManyNodes);
  return std::min(pace_.look * crowd, pace_.heartbeat);
}

void AgentMembership::read_state() {
  auto text = store_->get(keys_.state());
  if (!text || text == text_) return;
  state_ = parse_state(*text);
  text_ = std::move(text);
  if (report_.heard == state_.coordinator) return;
  report_.heard = state_.coordinator;
  changed_ = true;
}

void AgentMembership::send_heartbeat(Time now) {
  ++report_.heartbeat;
  store_->set(keys_.heartbeat(ticket_), to_text(report_));
  if (store_has_holder_) show_life(*store_);
  changed_ = false;
  sent_ = now;
}

// The first to come does; if it died before it could, whoever notices.
void AgentMembership::begin_job(Time now) {
  if (ticket_ != 1 && now - joined_ < policy_.silence) return;
  take_over({}, std::nullopt);
}

void AgentMembership::watch_coordinator(Time now) {
  if (!text_ || state_.phase == Phase::closed || report_.stage == Stage::left) return;
  const bool is_new = watched_ != state_.coordinator;
  if (!is_new && now - watched_read_ < pace_.heartbeat) return;
  const auto heartbeat = store_->get(keys_.heartbeat(state_.coordinator)).value_or("");
  if (is_new || heartbeat != watched_heartbeat_) watched_changed_ = now;
  watched_ = state_.coordinator;
  watched_read_ = now;
  watched_heartbeat_ = heartbeat;
  const bool left = !heartbeat.empty() && parse_report(heartbeat).stage == Stage::left;
  if (left || now - watched_changed_ >= policy_.silence) take_over(state_, text_);
}

void AgentMembership::take_over(JobState next, const std::optional<std::string>& expected) {
  next.coordinator = ticket_;
  store_->replace(keys_.state(), expected, to_text(next));
  read_state();
}

}  // namespace lockstep::cluster::elastic
