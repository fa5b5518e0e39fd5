// Copies of a store in a simulated world: processes are killed, started again, suspended and cut off, messages are late
// or lost, at random moments of a simulated clock. Whatever happens, no addition is lost or counted twice.
#include <lockstep/store/replica.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <queue>
#include <random>
#include <string>
#include <vector>

namespace lockstep::store {
namespace {

using namespace std::chrono_literals;
using Time = Replica::Time;
using std::chrono::milliseconds;

constexpr milliseconds kLease(2000);

/// A process with its replica, its keeper as a sequence of events, and one client.
struct Process {
  std::unique_ptr<Replica> replica;  ///< nullptr: dead
  int life = 0;                      ///< events of an earlier life do nothing
  Time resumes{};                    ///< suspended until then
  std::uint64_t connection = 0;      ///< to the leader
  Time asked{};
  bool awaits = false;
  std::uint64_t adding = 0;  ///< number of the client's addition; 0: none is under way
  std::uint64_t least = 0;   ///< what its sum must exceed
  std::uint64_t client_connection = 0;
};

class World {
 public:
  World(unsigned seed, std::size_t processes) : random_(seed), processes_(processes), cut_(processes, 0) {
    for (std::size_t i = 0; i < processes; ++i) start(i);
    processes_[0].replica->found(address(0));
  }

  void run(milliseconds time, bool disturbed, bool kills = true) {
    kills_ = kills;
    const auto end = now_ + time;
    if (disturbed) disturb(end);
    while (!events_.empty() && events_.top().time <= end) {
      const auto event = events_.top();
      events_.pop();
      now_ = event.time;
      event.action();
    }
    now_ = end;
  }

  /// From now on nothing is cut off, suspended, late or lost.
  void heal() {
    calm_ = true;
    std::fill(cut_.begin(), cut_.end(), 0);
    for (std::size_t i = 0; i < processes_.size(); ++i) {
      processes_[i].resumes = now_;
      if (!processes_[i].replica) start(i);
    }
  }

  std::uint64_t acknowledged() const { return acknowledged_; }
  int successions() const { return successions_; }
  std::string faults() const { return faults_; }
  const std::string& history() const { return trace_; }
  std::string standings() const {
    std::string text;
    for (std::size_t i = 0; i < processes_.size(); ++i) {
      const auto standing = processes_[i].replica->standing(now_);
      text += fmt::format("\n{}:{} {}.{} promised {}{}{}", i, standing.id.substr(0, 3), standing.view.epoch,
                          standing.view.version, standing.promised, standing.free ? " free" : "",
                          standing.leads ? " leads" : "");
      auto views = standing.earlier;
      views.push_back(standing.view);
      for (const View& view : views) {
        text += "; view";
        for (const Member& member : view.members)
          text += fmt::format(" {}:{}", index(member.address), member.id.substr(0, 3));
      }
    }
    return text + "\n";
  }
  std::size_t leaders() const {
    return static_cast<std::size_t>(std::count_if(processes_.begin(), processes_.end(), [this](const Process& process) {
      return process.replica && process.replica->standing(now_).leads;
    }));
  }

 private:
  struct Event {
    Time time;
    std::uint64_t number;
    std::function<void()> action;
    bool operator<(const Event& other) const { return std::tie(time, number) > std::tie(other.time, other.number); }
  };

  static Address address(std::size_t i) { return {"host", static_cast<std::uint16_t>(i + 1)}; }
  static std::size_t index(const Address& address) { return address.port - 1U; }
  std::uint64_t draw(std::uint64_t below) { return random_() % below; }
  milliseconds delay() { return milliseconds(draw(50) == 0 && !calm_ ? draw(3000) : 1 + draw(20)); }
  bool reach(std::size_t a, std::size_t b) const { return cut_[a] == cut_[b]; }

  /// An event of a process, which happens once it is not suspended, in this life of it.
  void later(std::size_t i, milliseconds after, std::function<void()> action) {
    const int life = processes_[i].life;
    events_.push({now_ + after, next_++, [this, i, life, action = std::move(action)] {
                    Process& process = processes_[i];
                    if (!process.replica || process.life != life) return;
                    if (process.resumes > now_) {
                      later(i, std::chrono::ceil<milliseconds>(process.resumes - now_), action);
                    } else {
                      action();
                    }
                  }});
  }

  void start(std::size_t i) {
    Process& process = processes_[i];
    process = {std::make_unique<Replica>(kLease), process.life + 1};
    later(i, milliseconds(draw(20)), [this, i] { keep(i); });
    later(i, milliseconds(draw(20)), [this, i] { tick(i); });
    later(i, milliseconds(draw(20)), [this, i] { be_client(i); });
  }

  void kill(std::size_t i) {
    Process& process = processes_[i];
    process.replica.reset();
    ++process.life;
    for (std::size_t j = 0; j < processes_.size(); ++j) {  // the kernel ends its connections
      if (j == i || !processes_[j].replica || !reach(i, j)) continue;
      processes_[j].replica->forget(process.connection);
      processes_[j].replica->forget(process.client_connection);
      processes_[j].awaits = processes_[j].awaits && index(processes_[j].replica->standing(now_).leader) != i;
    }
  }

  void tick(std::size_t i) {
    send(i, processes_[i].replica->tick(now_));
    trace_view(i);
    later(i, 20ms, [this, i] { tick(i); });
  }

  /// Asks `to` for something; the answers go where they belong.
  void ask(std::size_t from, std::size_t to, std::uint64_t connection, Operation operation,
           const MessageWriter& fields) {
    const auto message =
        MessageWriter().number(1).number(static_cast<std::uint64_t>(operation)).append(fields).message();
    if (!processes_[to].replica || !reach(from, to)) return;
    later(to, delay(), [this, to, connection, message] {
      send(to, processes_[to].replica->request(connection, *first_body(message), now_));
    });
  }

  void send(std::size_t from, const std::vector<Answer>& answers) {
    for (const auto& answer : answers) {
      const auto found = receivers_.find(answer.connection);
      if (found == receivers_.end()) continue;
      const auto& [to, action] = found->second;
      if (!reach(from, to) || (draw(200) == 0 && !calm_)) continue;
      MessageReader reader(*first_body(answer.message));
      reader.number();
      const auto status = static_cast<Status>(reader.number());
      later(to, delay(), [action = action, status, result = std::string(reader.rest())] { action(status, result); });
    }
  }
  using Receiver = std::function<void(Status, const std::string&)>;
  std::uint64_t connect(std::size_t from, Receiver receiver) {
    receivers_[++connections_] = {from, std::move(receiver)};
    return connections_;
  }

  // ---- the keeper of a process

  void keep(std::size_t i) {
    Process& process = processes_[i];
    later(i, 50ms, [this, i] { keep(i); });
    const auto self = process.replica->standing(now_);
    if (self.leads) {
      process.awaits = false;
      for (const Member& member : process.replica->lost_members()) {
        if (has_ended(member, probe(i, member.address))) process.replica->note_member_ended(member.id, now_);
      }
      return;
    }
    if (process.awaits && now_ - process.asked < kLease) return;
    const auto leader = self.leader.empty() ? i : index(self.leader);
    if (!process.awaits && leader != i && processes_[leader].replica && reach(i, leader)) return follow(i, leader);
    if (process.awaits) give_up(i, leader);
    search(i);
  }

  void give_up(std::size_t i, std::size_t leader) {
    Process& process = processes_[i];
    process.awaits = false;
    if (processes_[leader].replica && reach(i, leader)) processes_[leader].replica->forget(process.connection);
    process.connection = 0;
  }

  void follow(std::size_t i, std::size_t leader) {
    Process& process = processes_[i];
    process.awaits = true;
    process.asked = now_;
    if (process.connection == 0) process.connection = connect(i, {});
    const auto connection = process.connection;
    receivers_[connection] = {i, [this, i, leader, connection, asked = now_](Status status, const std::string& copied) {
                                Process& receiver = processes_[i];
                                if (receiver.connection != connection || !receiver.awaits) return;
                                receiver.awaits = false;
                                if (status != Status::done) {
                                  give_up(i, leader);
                                  return search(i);
                                }
                                const auto taken = receiver.replica->take(copied, asked, now_);
                                if (taken == Replica::Taken::refused) {
                                  give_up(i, leader);
                                  return search(i);
                                }
                                if (taken == Replica::Taken::member) return follow(i, leader);
                              }};
    ask(i, leader, connection, Operation::follow, process.replica->follower(address(i)));
  }

  Probe probe(std::size_t i, const Address& of) {
    const auto j = index(of);
    if (!reach(i, j) || (processes_[j].replica && processes_[j].resumes > now_)) return {};
    if (!processes_[j].replica) return {true, std::nullopt};
    return {false, processes_[j].replica->standing(now_)};
  }

  void search(std::size_t i) {
    Process& process = processes_[i];
    const auto self = process.replica->standing(now_);
    Probes probes;
    for (std::size_t j = 0; j < processes_.size(); ++j) {
      if (j != i) probes[address(j)] = probe(i, address(j));
    }
    if (const auto* const leader = find_leader(self, probes)) {
      return process.replica->follow_leader(leader->first, leader->second.standing->view, now_);
    }
    // Between one step and the next anything may happen.
    later(i, delay(), [this, i, self, probes] { elect(i, self, probes); });
  }

  void elect(std::size_t i, const Standing& self, const Probes& probes) {
    auto& replica = *processes_[i].replica;
    auto found = prospects(self, probes);
    auto ballot = std::make_shared<Ballot>(found.ballot);
    const auto leader = self.view.leader();
    if (ballot->ended.contains(leader) && replica.note_leader_ended(leader, now_)) ballot->ended_in_time = {leader};
    if (!found.is_first && draw(4) != 0) return;
    if (!may_succeed(self, *ballot)) return;
    const auto epoch = found.epoch;
    if (!replica.stand_for_election(epoch, now_)) return;
    MessageWriter candidate;
    candidate.number(epoch);
    write(candidate, self.view);
    ballot->votes = {self.id};
    for (const Member& voter : found.voters) {
      const auto connection = connect(i, [ballot, id = voter.id](Status status, const std::string& vote) {
        if (status == Status::done && MessageReader(vote).number() != 0) ballot->votes.insert(id);
      });
      ask(i, index(voter.address), connection, Operation::vote, candidate);
    }
    later(i, 100ms, [this, i, self, ballot, epoch, voters = found.voters]() mutable {
      if (!may_succeed(self, *ballot)) return;
      std::erase_if(voters, [&](const Member& voter) { return !ballot->votes.contains(voter.id); });
      if (processes_[i].replica->lead(epoch, ballot->ended, voters, now_))
        ++successions_, trace("{} succeeds with {} votes, {} {}", i, ballot->votes.size(), ballot->ended.size(),
                              ballot->ended_in_time.size());
    });
  }

  // ---- the client of a process

  void be_client(std::size_t i) {
    Process& process = processes_[i];
    later(i, milliseconds(20 + draw(300)), [this, i] { be_client(i); });
    if (process.adding == 0) {
      process.adding = ++additions_;
      process.least = greatest_;
    }
    const auto self = process.replica->standing(now_);
    const auto holder = self.leads ? i : self.leader.empty() ? i : index(self.leader);
    const auto number = process.adding;
    process.client_connection =
        connect(i, [this, i, number, life = process.life](Status status, const std::string& sum) {
          Process& client = processes_[i];
          if (status != Status::done || client.adding != number || client.life != life) return;
          acknowledge(MessageReader(sum).number(), client.least);
          client.adding = 0;
        });
    ask(i, holder, process.client_connection, Operation::once,
        MessageWriter()
            .text(fmt::format("client {}.{}", i, process.life))
            .number(number)
            .number(static_cast<std::uint64_t>(Operation::add))
            .text("sum")
            .number(1));
  }

  void acknowledge(std::uint64_t sum, std::uint64_t least) {
    ++acknowledged_;
    if (!faults_.empty()) return;
    if (sum <= least)
      faults_ += fmt::format("{} ms: the sum {} after {}\n{}", now_.time_since_epoch() / 1ms, sum, least, trace_);
    if (!sums_.insert(sum).second)
      faults_ += fmt::format("{} ms: {} again\n{}", now_.time_since_epoch() / 1ms, sum, trace_);
    greatest_ = std::max(greatest_, sum);
  }

  template <typename... Args>
  void trace(fmt::format_string<Args...> format, Args&&... args) {
    trace_ += fmt::format("{} ", now_.time_since_epoch() / 1ms - 3'600'000) +
              fmt::format(format, std::forward<Args>(args)...) + "\n";
  }
  void trace_view(std::size_t i) {
    if (!processes_[i].replica) return;
    const auto standing = processes_[i].replica->standing(now_);
    if (!standing.leads) return;
    std::string members;
    for (const auto& member : standing.view.members)
      members += fmt::format(" {}:{}", index(member.address), member.id.substr(0, 3));
    const auto text = fmt::format("{} leads {}.{}:{}", i, standing.view.epoch, standing.view.version, members);
    auto& last = last_[i];
    if (text != last) trace("{}", text);
    last = text;
  }

  // ---- what happens to them

  void disturb(Time end) {
    for (Time at = now_ + milliseconds(draw(3000)); at < end; at += milliseconds(100 + draw(4000))) {
      events_.push({at, next_++, [this] { strike(); }});
    }
  }

  void strike() {
    const auto i = static_cast<std::size_t>(draw(processes_.size()));
    switch (draw(6)) {
      case 0:
        // A process is killed where another copy lives in any case, so that the store is not lost for good.
        if (kills_ && processes_[i].replica && can_be_killed(i)) {
          kill(i);
          trace("kill {}", i);
          const int life = processes_[i].life;
          events_.push({now_ + milliseconds(draw(6000)), next_++, [this, i, life] {
                          if (!processes_[i].replica && processes_[i].life == life) start(i);
                        }});
        }
        break;
      case 1:
      case 2:
        processes_[i].resumes = now_ + milliseconds(draw(7000));
        trace("suspend {} until {}", i, processes_[i].resumes.time_since_epoch() / 1ms - 3'600'000);
        break;
      case 3:
        std::fill(cut_.begin(), cut_.end(), 0);
        trace("plug");
        break;
      default: cut_[i] = cut_[i] == 0 ? 1 + draw(2) : 0; trace("cut {} {}", i, cut_[i]);
    }
  }

  /// Whether more than half of each view that a process has stay alive without it.
  bool can_be_killed(std::size_t i) const {
    Ids alive;
    for (std::size_t j = 0; j < processes_.size(); ++j) {
      if (j != i && processes_[j].replica) alive.insert(processes_[j].replica->standing(now_).id);
    }
    const auto stays = [&](const View& view) {
      std::size_t count = 0;
      for (const Member& member : view.members) count += alive.contains(member.id) ? 1 : 0;
      return 2 * count > view.members.size();
    };
    return std::all_of(processes_.begin(), processes_.end(), [&](const Process& process) {
      if (!process.replica) return true;
      const auto standing = process.replica->standing(now_);
      return std::all_of(standing.earlier.begin(), standing.earlier.end(), stays) &&
             (standing.view.store.empty() || stays(standing.view));
    });
  }

  std::mt19937 random_;
  Time now_{1h};
  std::priority_queue<Event> events_;
  std::uint64_t next_ = 0;
  std::vector<Process> processes_;
  std::vector<std::uint64_t> cut_;  ///< processes with the same number reach each other
  std::map<std::uint64_t, std::pair<std::size_t, Receiver>> receivers_;
  std::uint64_t connections_ = 0;
  std::uint64_t additions_ = 0;
  std::uint64_t acknowledged_ = 0;
  std::uint64_t greatest_ = 0;
  std::set<std::uint64_t> sums_;
  std::string faults_;
  std::string trace_;
  bool kills_ = true;
  bool calm_ = false;
  std::map<std::size_t, std::string> last_;
  int successions_ = 0;
};

TEST(CopiesAtRandom, NothingIsLostOrCountedTwice) {
  int successions = 0;
  std::uint64_t acknowledged = 0;
  for (unsigned seed = 1; seed <= 100; ++seed) {
    World world(seed, 2 + seed % 4);
    world.run(2s, false);
    world.run(60s, true);
    world.heal();
    world.run(30s, false);
    ASSERT_EQ(world.faults(), "") << "seed " << seed;
    successions += world.successions();
    acknowledged += world.acknowledged();
  }
  EXPECT_GT(successions, 100);
  EXPECT_GT(acknowledged, 5'000U);
}

// Processes that die while views change can take the majority with them; without deaths somebody leads again.
TEST(CopiesAtRandom, WhenAllIsWellAgainOneLeads) {
  int led = 0;
  constexpr int kWorlds = 40;
  for (unsigned seed = 1; seed <= kWorlds; ++seed) {
    World world(seed, 3 + seed % 3);
    world.run(2s, false);
    world.run(40s, true, false);
    world.heal();
    world.run(30s, false);
    const auto before = world.acknowledged();
    world.run(5s, false);
    ASSERT_EQ(world.faults(), "") << "seed " << seed;
    if (world.leaders() == 1 && world.acknowledged() > before) {
      ++led;
    } else {
      std::cout << "seed " << seed << world.standings() << world.history();
    }
  }
  EXPECT_EQ(led, kWorlds);
}

}  // namespace
}  // namespace lockstep::store
