// The rendezvous of launchers: the way to their service and, with etcd, the election of the launcher that runs it, its
// lease, and the saved state (etcd_rendezvous.cpp).
#include <algorithm>
#include <utility>

#include "simulation/launchers/world.h"

namespace lockstep::simulation::launchers {

using namespace cluster::elastic;  // the end of a session

namespace {

constexpr milliseconds kPause{100};      // between two tries to connect
constexpr milliseconds kRefusals{2000};  // of a service that a launcher has joined: then it is gone

}  // namespace

// Where the service is; with etcd, whether this launcher is to run it.
void Life::find(int index) {
  timeline_.after(kPause, [this, index] {
    deliver(launcher(index).process, [this, index] {
      auto& one = launcher(index);
      if (one.session.over || one.wire || one.session.said_goodbye) return;
      const auto now = timeline_.now();
      if (!circumstances_.etcd) {
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
      campaign(index);
      judge(index, false);
    });
  });
}

// Another try to connect, or the end of the membership.
void Life::judge(int index, bool refused) {
  auto& one = launcher(index);
  const auto now = clock_of(one);
  const bool joined = one.session.ticket != 0;
  if (!refused) one.refused_since.reset();
  if (refused && !one.refused_since) one.refused_since = now;
  const auto waited = now - one.disconnected;
  const bool lost = joined && refused && now - *one.refused_since >= kRefusals;
  if (lost || waited >= (joined ? circumstances_.limit : circumstances_.policy.join_timeout)) {
    one.session.over = SessionEnd{ErrorKind::timeout, "the service does not answer", joined && !lost};
    return look(index);
  }
  find(index);
}

void Life::campaign(int index) {
  const auto created = ++revision_;
  const bool lost = std::exchange(lose_next_, false);
  key_ = {lost ? -1 : incarnations_ + 1, created};
  lease_until_ = timeline_.now() + circumstances_.lease;
  if (!lost) return begin_service(index, created);
  // Without an answer the same is requested again, which fails, and the lease is revoked.
  timeline_.after(milliseconds(200), [this, created] {
    if (key_ && key_->second == created) key_.reset();
  });
}

bool Life::holds_key(const Service& service) const {
  return key_ && key_->second == service.created && lease_until_ >= timeline_.now();
}

void Life::keep_lease(int incarnation) {
  timeline_.after(circumstances_.lease / 3, [this, incarnation] {
    if (!services_.at(incarnation).serves) return;
    deliver(host_of(incarnation), [this, incarnation] {
      auto& one = services_.at(incarnation);
      if (!one.serves) return;
      const auto now = timeline_.now();
      const bool held = holds_key(one);
      if (away_until_ <= now && held) {
        lease_until_ = now + circumstances_.lease;
        one.kept = clock_of(owner_of(incarnation));
      } else if (clock_of(owner_of(incarnation)) - one.kept >= circumstances_.lease || (away_until_ <= now && !held)) {
        return end_service(incarnation, "its lease has expired");
      }
      keep_lease(incarnation);
    });
  });
}

// What depends on the state waits until etcd has it.
void Life::save_if_changed(int incarnation) {
  auto& service = services_.at(incarnation);
  if (!service.held.begin_save()) return;
  const auto when = std::max(timeline_.now() + circumstances_.write, away_until_);
  timeline_.at(when, [this, incarnation, text = print_job(service.state.jobs.at("job"))] {
    auto& writer = host_of(incarnation);
    // Without an answer the same is written again.
    const bool held = holds_key(services_.at(incarnation));
    if (held && writer.alive) saved_ = text;
    deliver(writer, [this, incarnation, held] {
      auto& one = services_.at(incarnation);
      if (!one.serves) return;
      if (!held) return end_service(incarnation, "another one runs it");
      for (const auto& output : one.held.end_save()) carry_out(output);
      save_if_changed(incarnation);
    });
  });
}

}  // namespace lockstep::simulation::launchers
