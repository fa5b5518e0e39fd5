// A thread beside a replica: follows the leader by long polling, or probes members and stands for election.
#include <lockstep/base/shown_text.h>
#include <lockstep/base/signals_blocked.h>
#include <lockstep/store/replica_keeper.h>

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <utility>

namespace lockstep::store {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kLook(50);
constexpr milliseconds kProbe(400);
constexpr milliseconds kAnnounce(200);
constexpr milliseconds kAskAgain(500);   // where there are enough members
constexpr milliseconds kPatience(2000);  // for a member with precedence over this one that could also succeed
constexpr milliseconds kConnect(1000);

std::string text_of(const Address& address) { return host_and_port(address.host, address.port); }

}  // namespace

ReplicaKeeper::ReplicaKeeper(std::shared_ptr<Replica> replica, KeeperOptions options)
    : replica_(std::move(replica)), options_(std::move(options)) {
  const SignalsBlocked blocked;
  thread_ = std::thread([this] { run(); });
}

ReplicaKeeper::~ReplicaKeeper() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    if (client_) client_->end();
  }
  wake_.notify_all();
  thread_.join();
}

void ReplicaKeeper::run() {
  for (std::unique_lock lock(mutex_); !stop_; lock.lock()) {
    lock.unlock();
    try {
      const auto self = replica_->standing(Clock::now());
      if (self.leads) {
        look_after_members();
        announce_leader(self);
        pause(kLook);
      } else if (!follow(self)) {
        search();
        pause(kLook);
      }
    } catch (const std::exception&) {  // no memory or no descriptors: the members detect that this one is silent
      pause(kAskAgain);
    }
  }
}

void ReplicaKeeper::pause(milliseconds time) {
  std::unique_lock lock(mutex_);
  wake_.wait_for(lock, time, [this] { return stop_; });
}

void ReplicaKeeper::use(std::shared_ptr<Client> client) {
  const std::lock_guard lock(mutex_);
  client_ = std::move(client);
  if (stop_ && client_) client_->end();
}

std::unique_ptr<Client> ReplicaKeeper::connect(const Address& address, milliseconds limit) const {
  return std::make_unique<Client>(address.host, address.port, options_.credentials, Clock::now() + limit);
}

// ---- following

/// Follows the leader. False when the leader is unknown or lost.
bool ReplicaKeeper::follow(const Standing& self) {
  if (self.leader.empty() || self.leader == options_.own) return false;
  try {
    if (!client_ || followed_ != self.leader) {
      use(connect(self.leader, kConnect));
      followed_ = self.leader;
    }
    const auto asked = Clock::now();
    const auto lease = self.view.store.empty() ? kConnect : self.view.lease;
    const auto copied = client_->ask(Operation::follow, replica_->follower(options_.own), asked + lease);
    const auto taken = replica_->take(copied, asked, Clock::now());
    if (taken == Replica::Taken::refused) {
      use(nullptr);
      return false;
    }
    MessageReader reader(copied);
    const auto view = read_views(reader).back();
    hints_.clear();
    for (const Member& member : view.members) hints_.insert(member.address);
    leaderless_.reset();
    if (options_.tell && !told_.empty() && told_ != view.leader()) {
      options_.tell(fmt::format("the store of the job is held at {} from now on", text_of(self.leader)));
    }
    told_ = view.leader();
    if (taken == Replica::Taken::outside) pause(kAskAgain);
    return true;
  } catch (const std::exception&) {  // for any cause of the loss, search() finds the next leader
    use(nullptr);
    return false;
  }
}

// ---- without a leader

Probe ReplicaKeeper::ask_standing(const Address& address) const {
  try {
    const auto answer = connect(address, kProbe)->ask(Operation::stand, {}, Clock::now() + kProbe);
    MessageReader reader(answer);
    return {false, read_standing(reader)};
  } catch (const NobodyListens&) {
    return {true, std::nullopt};
  } catch (const std::exception&) {
    return {};
  }
}

void ReplicaKeeper::search() {
  if (!leaderless_) leaderless_ = Clock::now();
  const auto self = replica_->standing(Clock::now());
  auto places = std::exchange(hints_, {});
  places.insert({options_.endpoint, self.leader});
  for (const Member& member : self.view.members) places.insert(member.address);
  for (const View& view : self.earlier) {
    for (const Member& member : view.members) places.insert(member.address);
  }
  Probes probes;
  for (const Address& place : places) {
    if (place.empty() || place == options_.own) continue;
    const auto& found = probes[place] = ask_standing(place);
    if (!found.standing) continue;
    for (const Member& member : found.standing->view.members) hints_.insert(member.address);
    hints_.insert(found.standing->leader);
  }
  if (const auto* const leader = find_leader(self, probes)) {
    replica_->follow_leader(leader->first, leader->second.standing->view, Clock::now());
  } else {
    elect(self, probes);
  }
}

void ReplicaKeeper::elect(const Standing& self, const Probes& probes) {
  auto [ballot, epoch, voters, is_first] = prospects(self, probes);
  const auto leader = self.view.leader();
  if (ballot.ended.contains(leader) && replica_->note_leader_ended(leader, Clock::now()))
    ballot.ended_in_time = {leader};
  if (!is_first && Clock::now() - *leaderless_ < kPatience) return;
  if (!may_succeed(self, ballot)) return;
  if (!replica_->stand_for_election(epoch, Clock::now())) return;
  MessageWriter candidate;
  candidate.number(epoch);
  write(candidate, self.view);
  std::erase_if(voters, [&](const Member& voter) { return !asks_for_vote(voter.address, candidate); });
  ballot.votes = {self.id};
  for (const Member& voter : voters) ballot.votes.insert(voter.id);
  if (!may_succeed(self, ballot) || !replica_->lead(epoch, ballot.ended, voters, Clock::now())) return;
  leaderless_.reset();
  told_ = self.id;
  use(nullptr);
  if (options_.tell) {
    options_.tell(
        fmt::format("the launcher that held the store of the job is lost; this one holds it, at {}, from now on",
                    text_of(options_.own)));
  }
}

bool ReplicaKeeper::asks_for_vote(const Address& of, const MessageWriter& candidate) const {
  try {
    const auto answer = connect(of, kProbe)->ask(Operation::vote, candidate, Clock::now() + kProbe);
    return MessageReader(answer).number() != 0;
  } catch (const std::exception&) {
    return false;
  }
}

// ---- leading

void ReplicaKeeper::look_after_members() {
  for (const Member& member : replica_->lost_members()) {
    if (has_ended(member, ask_standing(member.address))) replica_->note_member_ended(member.id, Clock::now());
  }
}

/// Redirects the opening address: a process that restarts there would otherwise open a new store.
void ReplicaKeeper::announce_leader(const Standing& self) {
  const auto is_there = [this](const Member& member) { return member.address == options_.endpoint; };
  const auto& members = self.view.members;
  if (std::any_of(members.begin(), members.end(), is_there) || Clock::now() - announced_ < kAnnounce) return;
  announced_ = Clock::now();
  try {
    MessageWriter announcement;
    announcement.text(self.view.store).number(self.view.epoch);
    write(announcement, options_.own);
    connect(options_.endpoint, kProbe)->ask(Operation::announce, announcement, Clock::now() + kProbe);
  } catch (const std::exception&) {  // no process listens there, or it is a store of another job with another secret
  }
}

}  // namespace lockstep::store
