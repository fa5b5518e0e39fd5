// A copy of the store: its leader holds an answer until all members have the change and the lease is valid.
#include <lockstep/base/secret.h>
#include <lockstep/store/replica.h>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace lockstep::store {
namespace {

constexpr std::size_t kBytesBeforeStatus = 12;  // the length and the number of an answer
constexpr int kAnswersInALease = 4;             // the minimum that a member gets from the leader
constexpr int kTurnsInALease = 8;               // for candidates
// The time until a voter gives up the candidate for which it voted. That candidate leads within a lease after the vote
// or never. The old leader has then lost more than half of its view, and detects that within another lease. A leader
// that still leads is valid.
constexpr int kLeasesForACandidate = 3;

std::uint64_t number_of(const std::string& answer) { return MessageReader(*first_body(answer)).number(); }

}  // namespace

Replica::Replica(std::chrono::milliseconds lease) : lease_(lease), id_(random_token()) {}

// ---- requests

std::vector<Answer> Replica::request(std::uint64_t connection, std::string_view body, Time now) {
  const std::lock_guard lock(mutex_);
  Answers answers;
  MessageReader fields(body);
  const auto number = fields.number();
  const auto operation = static_cast<Operation>(fields.number());
  const auto say = [&](const MessageWriter& answer) { answers.push_back({connection, answer.message()}); };
  switch (operation) {
    case Operation::stand: {
      auto answer = answer_to(number, Status::done);
      write(answer, standing_locked(now));
      say(answer);
      break;
    }
    case Operation::vote: say(answer_to(number, Status::done).number(hear_candidate(fields, now) ? 1 : 0)); break;
    case Operation::announce:
      hear_announcement(fields);
      say(answer_to(number, Status::done));
      break;
    case Operation::follow: hear_follower(connection, number, fields, now, answers); break;
    case Operation::once:
    case Operation::look_up:
      if (!leads_) {
        say(answer_to(number, Status::elsewhere));
      } else if (operation == Operation::once) {
        execute_once(connection, number, fields);
      } else {
        for (auto& answer : values_.request(connection, body)) held_.push_back({change_, std::move(answer)});
      }
      break;
    case Operation::cancel: break;  // a client ignores answers that it does not wait for
    default:
      throw BadMessage(fmt::format("a store with copies has no operation {}", static_cast<std::uint64_t>(operation)));
  }
  if (leads_) settle(now, answers);
  return answers;
}

/// The result is stored beside the values, and copied with them: a client whose answer was lost repeats the request,
/// here or at the next leader.
void Replica::execute_once(std::uint64_t connection, std::uint64_t number, MessageReader& fields) {
  const auto key = "lockstep/done/" + fields.key();
  const auto request = fields.number();
  std::string result;
  const auto* const done = values_.find(key);
  if (done != nullptr && MessageReader(*done).number() == request) {
    result = done->substr(sizeof request);
  } else {
    const auto operation = fields.number();
    if (operation != static_cast<std::uint64_t>(Operation::set) &&
        operation != static_cast<std::uint64_t>(Operation::compare_set) &&
        operation != static_cast<std::uint64_t>(Operation::add)) {
      throw BadMessage(fmt::format("operation {} is not one to be executed once", operation));
    }
    const auto inner = MessageWriter().number(number).number(operation).raw(fields.rest()).message();
    const auto answers = values_.request(connection, *first_body(inner));
    result = answers.front().message.substr(kBytesBeforeStatus);
    change(MessageReader(fields.rest()).key());
    values_.assign(key, MessageWriter().number(request).raw(result).body());
    change(key);
  }
  held_.push_back({change_, {connection, MessageWriter().number(number).raw(result).message()}});
}

void Replica::hear_follower(std::uint64_t connection, std::uint64_t number, MessageReader& fields, Time now,
                            Answers& answers) {
  const auto id = fields.key();
  const auto address = read_address(fields);
  const auto store = fields.key();
  const auto epoch = fields.number();
  const auto has = fields.number();
  const auto promised = fields.number();
  fields.expect_end();
  if (!leads_ || (store == view_.store && promised > view_.epoch)) {
    answers.push_back({connection, answer_to(number, Status::elsewhere).message()});
    return;
  }
  if (!view_.has(id)) {
    if (view_.members.size() >= kMostMembers) {
      answers.push_back({connection, answer_to(number, Status::done).append(copied({})).message()});
      return;
    }
    auto members = view_.members;
    members.push_back({id, address});
    change_members(std::move(members));
    followed_[id] = {};
  }
  Followed& follower = followed_[id];
  if (follower.connection != connection) follower.sent.reset();
  follower.connection = connection;
  follower.pending = number;
  follower.has = store == view_.store && epoch == view_.epoch ? std::optional(has) : std::nullopt;
  follower.heard = follower.asked = now;
  if (follower.sent) follower.confirmed = follower.sent;
  follower.ended = follower.ended_in_time = false;
}

bool Replica::hear_candidate(MessageReader& fields, Time now) {
  const auto epoch = fields.number();
  const auto view = read_view(fields);
  fields.expect_end();
  if (!may_vote(standing_locked(now), view, epoch)) return false;
  promised_ = epoch;
  voted_ = now;
  return true;
}

/// A process has opened a store at the address of one that has moved: the older store takes precedence.
void Replica::hear_announcement(MessageReader& fields) {
  const auto store = fields.key();
  const auto epoch = fields.number();
  const auto leader = read_address(fields);
  fields.expect_end();
  if (store == view_.store || (!view_.store.empty() && epoch <= view_.epoch)) return;
  if (leads_) step_down();
  forget_copy();
  promised_ = 0;
  leader_ = leader;
}

void Replica::forget(std::uint64_t connection) {
  const std::lock_guard lock(mutex_);
  for (auto& [id, follower] : followed_) {
    if (follower.connection != connection) continue;
    follower.connection.reset();
    follower.pending.reset();
  }
}

// ---- leading

void Replica::change(const std::string& key) {
  auto& last = last_change_[key];
  if (last != 0) changed_.erase(last);
  last = ++change_;
  changed_[last] = key;
}

void Replica::change_members(std::vector<Member> members) {
  view_.members = std::move(members);
  ++view_.version;
  views_.emplace_back(++change_, view_);
}

std::uint64_t Replica::all_have() const {
  auto least = change_;
  for (const auto& [id, follower] : followed_) least = std::min(least, follower.has.value_or(0));
  return least;
}

/// No other process can lead while the leader has had contact with all members during the lease, which counts from the
/// sending of an answer that they have received.
bool Replica::may_answer(Time now) const {
  const auto in_time = [&](const auto& item) {
    return item.second.confirmed && now < *item.second.confirmed + view_.lease;
  };
  return views_.size() == 1 && std::all_of(followed_.begin(), followed_.end(), in_time);
}

void Replica::settle(Time now, Answers& answers) {
  for (auto& [id, follower] : followed_) {
    if (!follower.pending) continue;
    const bool is_due = now - follower.asked >= view_.lease / kAnswersInALease;
    if (is_due || !follower.confirmed || follower.has != change_) answer_follower(follower, now, answers);
  }
  const auto all = all_have();
  if (views_.size() > 1 && all >= views_.back().first) {
    views_.erase(views_.begin(), views_.end() - 1);
    ++change_;  // the answers to `follow` report it to the members
    for (auto& [id, follower] : followed_) {
      if (follower.pending) answer_follower(follower, now, answers);
    }
  }
  while (!held_.empty() && held_.front().change <= all && may_answer(now)) {
    answers.push_back(std::move(held_.front().answer));
    held_.pop_front();
  }
}

void Replica::answer_follower(Followed& follower, Time now, Answers& answers) {
  const auto number = *std::exchange(follower.pending, std::nullopt);
  answers.push_back({*follower.connection, answer_to(number, Status::done).append(copied(follower)).message()});
  follower.sent = now;
}

/// Writes the views; whether the changes are complete, and the first one otherwise; the last change; the keys and
/// values.
MessageWriter Replica::copied(const Followed& follower) const {
  MessageWriter fields;
  std::vector<View> views;
  for (const auto& [change, view] : views_) views.push_back(view);
  write(fields, views);
  fields.number(follower.has ? 0 : 1).number(follower.has.value_or(0)).number(change_);
  const auto begin = follower.connection ? changed_.upper_bound(follower.has.value_or(0)) : changed_.end();
  fields.number(static_cast<std::uint64_t>(std::distance(begin, changed_.end())));
  for (auto change = begin; change != changed_.end(); ++change) {
    const auto* const value = values_.find(change->second);
    fields.text(change->second).number(value == nullptr ? 0 : 1).text(value == nullptr ? "" : *value);
  }
  return fields;
}

bool Replica::may_go_on_with(Ids with) const {
  with.insert(ended_in_time_.begin(), ended_in_time_.end());
  return std::all_of(views_.begin(), views_.end(), [&](const auto& view) { return may_go_on(view.second, with); });
}

/// The members from which this leader has received a message during the lease, and itself.
Ids Replica::heard_members(Time now) const {
  Ids heard = {id_};
  for (const auto& [id, follower] : followed_) {
    if (!follower.ended && now < follower.heard + view_.lease) heard.insert(id);
  }
  return heard;
}

/// A member that got an answer during the lease has not voted for another leader; one that only sent a request may
/// have.
void Replica::drop_lost(Time now) {
  for (const auto& [id, follower] : followed_) {
    if (follower.ended_in_time) ended_in_time_.insert(id);
  }
  const auto heard = heard_members(now);
  if (heard.size() == view_.members.size()) return;
  if (!may_go_on_with(heard)) return step_down();
  Ids sure = {id_};
  for (const auto& [id, follower] : followed_) {
    if (heard.contains(id) && follower.confirmed && now < *follower.confirmed + view_.lease) sure.insert(id);
  }
  if (!may_go_on_with(std::move(sure))) return;
  auto members = view_.members;
  std::erase_if(members, [&](const Member& member) { return !heard.contains(member.id); });
  std::erase_if(followed_, [&](const auto& item) { return !heard.contains(item.first); });
  change_members(std::move(members));
}

void Replica::step_down() {
  leads_ = joined_ = false;
  orphaned_ = true;
  ended_in_time_of_leader_ = false;
  leader_ = {};
  confirmed_.reset();
  followed_.clear();
  ended_in_time_.clear();
}

void Replica::forget_copy() {
  values_ = Values();
  view_ = View();
  views_.clear();
  change_ = 0;
  changed_.clear();
  last_change_.clear();
  joined_ = orphaned_ = false;
  confirmed_.reset();
}

std::vector<Answer> Replica::tick(Time now) {
  const std::lock_guard lock(mutex_);
  Answers answers;
  if (leads_) drop_lost(now);
  if (leads_) {
    settle(now, answers);
    return answers;
  }
  for (const Held& held : std::exchange(held_, {})) {
    const auto number = number_of(held.answer.message);
    answers.push_back({held.answer.connection, answer_to(number, Status::elsewhere).message()});
  }
  return answers;
}

bool Replica::is_busy() const {
  const std::lock_guard lock(mutex_);
  return leads_ || !held_.empty();
}

void Replica::found(const Address& own) {
  const std::lock_guard lock(mutex_);
  view_ = {random_token(), 1, 1, lease_, {{id_, own}}};
  views_ = {{++change_, view_}};
  promised_ = 1;
  leads_ = joined_ = true;
  leader_ = own;
}

std::vector<Member> Replica::lost_members() const {
  const std::lock_guard lock(mutex_);
  std::vector<Member> lost;
  for (const Member& member : view_.members) {
    const auto found = followed_.find(member.id);
    if (found != followed_.end() && !found->second.connection && !found->second.ended) lost.push_back(member);
  }
  return lost;
}

void Replica::note_member_ended(const std::string& member, Time now) {
  const std::lock_guard lock(mutex_);
  const auto found = followed_.find(member);
  if (!leads_ || found == followed_.end() || found->second.connection) return;
  found->second.ended = true;
  found->second.ended_in_time = found->second.confirmed && now < *found->second.confirmed + view_.lease;
}

// ---- following, and succession

bool Replica::is_free(Time now) const {
  return !leads_ && !view_.store.empty() && (orphaned_ || *heard_ + view_.lease <= now);
}

Standing Replica::standing(Time now) const {
  const std::lock_guard lock(mutex_);
  return standing_locked(now);
}

Standing Replica::standing_locked(Time now) const {
  std::vector<View> earlier;
  for (const auto& [change, view] : views_) earlier.push_back(view);
  if (!earlier.empty()) earlier.pop_back();
  // A process that was suspended has not yet detected that it lost the other members.
  const bool leads = leads_ && may_go_on_with(heard_members(now));
  return {id_, view_, std::move(earlier), leads, is_free(now), joined_, promised_, leader_};
}

MessageWriter Replica::follower(const Address& own) const {
  const std::lock_guard lock(mutex_);
  MessageWriter fields;
  fields.text(id_);
  write(fields, own);
  fields.text(view_.store).number(view_.epoch).number(change_).number(promised_);
  return fields;
}

Replica::Taken Replica::take(std::string_view copied, Time asked, Time now) {
  const std::lock_guard lock(mutex_);
  MessageReader fields(copied);
  auto views = read_views(fields);
  const View& view = views.back();
  const bool is_same = view.store == view_.store;
  const bool is_newer = view.epoch > view_.epoch;
  if (is_same ? view.epoch < std::max(view_.epoch, promised_) : !view_.store.empty() && !is_newer) {
    return Taken::refused;
  }
  if (leads_ && !is_newer) return Taken::refused;
  if (leads_) step_down();
  leader_ = view.members.front().address;
  if (!view.has(id_)) {
    joined_ = true;
    return Taken::outside;
  }
  const bool all = fields.number() != 0;
  const auto first = fields.number();
  const auto last = fields.number();
  if (!all && (!is_same || is_newer || first != change_)) throw BadMessage("changes that do not follow the last ones");
  if (all) forget_copy();
  for (auto left = fields.number(); left > 0; --left) {
    const auto key = fields.key();
    const bool exists = fields.number() != 0;
    const auto value = fields.text();
    values_.assign(key, exists ? std::optional(std::string(value)) : std::nullopt);
    change(key);
  }
  fields.expect_end();
  if (!is_same) promised_ = 0;
  promised_ = std::max(promised_, view.epoch);
  view_ = view;
  views_.clear();
  for (auto& each : views) views_.emplace_back(0, std::move(each));
  change_ = last;
  heard_ = now;
  confirmed_ = asked;
  joined_ = joined_ || views_.size() == 1;
  orphaned_ = ended_in_time_of_leader_ = false;
  return Taken::member;
}

void Replica::follow_leader(const Address& leader, const View& view, Time now) {
  const std::lock_guard lock(mutex_);
  if (leads_) return;
  if (view.store == view_.store && view.epoch < promised_) {
    if (now < voted_ + kLeasesForACandidate * view_.lease) return;
    begin_anew();
  }
  leader_ = leader;
}

void Replica::forget_leader() {
  const std::lock_guard lock(mutex_);
  if (!leads_) leader_ = {};
}

bool Replica::note_leader_ended(const std::string& leader, Time now) {
  const std::lock_guard lock(mutex_);
  if (leads_ || leader == id_ || view_.leader() != leader) return false;
  const bool in_time = confirmed_ && now < *confirmed_ + view_.lease;
  orphaned_ = true;
  ended_in_time_of_leader_ = ended_in_time_of_leader_ || in_time;
  return in_time;
}

bool Replica::stand_for_election(std::uint64_t epoch, Time now) {
  const std::lock_guard lock(mutex_);
  if (!is_free(now) || !view_.has(id_) || epoch <= std::max(promised_, view_.epoch)) return false;
  // Candidates that stand at the same time would split the votes: after a vote, each waits for a different time.
  const auto own = std::find_if(view_.members.begin(), view_.members.end(), [&](const auto& m) { return m.id == id_; });
  const auto place = 1 + std::distance(view_.members.begin(), own);
  if (now < voted_ + place * view_.lease / kTurnsInALease) return false;
  promised_ = epoch;
  voted_ = now;
  return true;
}

bool Replica::lead(std::uint64_t epoch, const Ids& ended, const std::vector<Member>& voters, Time now) {
  const std::lock_guard lock(mutex_);
  if (promised_ != epoch || !is_free(now) || !view_.has(id_) || voted_ + view_.lease <= now) return false;
  followed_.clear();
  ended_in_time_.clear();
  // Only the first candidate may count the old leader as with it: another one may have succeeded that leader, too.
  const bool first =
      std::all_of(views_.begin(), views_.end(), [&](const auto& view) { return is_first(view.second, id_, ended); });
  if (ended_in_time_of_leader_ && first) ended_in_time_.insert(view_.leader());
  std::vector<Member> members;
  for (const Member& member : view_.members) {
    if (member.id == id_) members.insert(members.begin(), member);
    if (member.id == id_ || member.id == view_.leader() || ended.contains(member.id)) continue;
    members.push_back(member);
    followed_[member.id].heard = now;
  }
  for (const Member& voter : voters) {  // only a member of an earlier view
    if (followed_.contains(voter.id)) continue;
    members.push_back(voter);
    followed_[voter.id].heard = now;
  }
  leads_ = joined_ = true;
  leader_ = members.front().address;
  view_.epoch = epoch;
  change_members(std::move(members));
  return true;
}

/// Gives this process a new identity: to all other processes it is then another one, without a copy and without a vote.
void Replica::begin_anew() {
  id_ = random_token();
  promised_ = 0;
  forget_copy();
}

}  // namespace lockstep::store
