// One process's copy of a store that several processes have, and its part in who leads. Contains the logic only,
// without network I/O: the server passes requests to it, and its keeper (replica_keeper.h) everything else.
#pragma once

#include <lockstep/store/succession.h>
#include <lockstep/store/values.h>
#include <lockstep/store/view.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace lockstep::store {

/// The leader executes the requests of clients and withholds each answer until all other members have the changes that
/// it tells of; any other process answers Status::elsewhere. Members ask the leader for changes (`follow`), and have
/// all that came before when they ask again. Thread-safe.
class Replica {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::size_t kMostMembers = 5;

  /// `lease`: of the store, if this process is its first leader (View::lease).
  explicit Replica(std::chrono::milliseconds lease);

  // ---- for the server, as Values

  std::vector<Answer> request(std::uint64_t connection, std::string_view body, Time now);
  void forget(std::uint64_t connection);
  /// The answers that have become due; call it often while `is_busy`.
  std::vector<Answer> tick(Time now);
  bool is_busy() const;

  // ---- for its keeper

  Standing standing(Time now) const;
  /// Makes a new, empty store and leads it.
  void found(const Address& own);
  /// The fields of the next `follow`.
  MessageWriter follower(const Address& own) const;
  enum class Taken { member, outside, refused };
  /// Takes the answer to a `follow` that was sent at `asked`. outside: there are enough members. refused: it is from a
  /// leader that this process has given up.
  Taken take(std::string_view copied, Time asked, Time now);
  /// Where the leader of that view is. If this process has voted for another one since, it begins anew, once it has
  /// waited for that one in vain.
  void follow_leader(const Address& leader, const View& view, Time now);
  /// Nothing is known of a leader any more.
  void forget_leader();
  /// The process of the leader was found to have ended; whether `now` is during the lease.
  bool note_leader_ended(const std::string& leader, Time now);
  /// Votes for itself; false when it may not, or not yet.
  bool stand_for_election(std::uint64_t epoch, Time now);
  /// Leads in that epoch, without those that have ended, and with those that have voted for it. False when it has voted
  /// for another since, or the votes are older than the lease.
  bool lead(std::uint64_t epoch, const Ids& ended, const std::vector<Member>& voters, Time now);
  /// Members whose connection to this leader has ended; and that their process was found to have ended, too.
  std::vector<Member> lost_members() const;
  void note_member_ended(const std::string& member, Time now);

 private:
  struct Followed {
    std::optional<std::uint64_t> connection{};
    std::optional<std::uint64_t> pending{};  ///< number of its request
    std::optional<std::uint64_t> has{};      ///< its copy, as a number of changes; nullopt: of another leader
    Time heard{};
    Time asked{};
    std::optional<Time> sent{};       ///< its last answer, on this connection
    std::optional<Time> confirmed{};  ///< when the last answer was sent that it has received
    bool ended = false;
    bool ended_in_time = false;
  };
  struct Held {
    std::uint64_t change = 0;  ///< that the members must have
    Answer answer;
  };
  using Answers = std::vector<Answer>;

  void answer_client(std::uint64_t connection, std::string_view body, Answers& answers);
  void execute_once(std::uint64_t connection, std::uint64_t number, MessageReader& fields);
  void hear_follower(std::uint64_t connection, std::uint64_t number, MessageReader& fields, Time now, Answers& answers);
  bool hear_candidate(MessageReader& fields, Time now);
  void hear_announcement(MessageReader& fields);

  void change(const std::string& key);
  void change_members(std::vector<Member> members);
  bool may_go_on_with(Ids with) const;
  Ids heard_members(Time now) const;
  void drop_lost(Time now);
  void step_down();
  void forget_copy();
  void begin_anew();
  bool may_answer(Time now) const;
  std::uint64_t all_have() const;
  void settle(Time now, Answers& answers);
  MessageWriter copied(const Followed& follower) const;
  void answer_follower(Followed& follower, Time now, Answers& answers);
  bool is_free(Time now) const;
  Standing standing_locked(Time now) const;

  const std::chrono::milliseconds lease_;
  mutable std::mutex mutex_;
  std::string id_;

  Values values_;
  View view_;
  std::uint64_t change_ = 0;                      ///< number of changes in this copy
  std::map<std::uint64_t, std::string> changed_;  ///< keys by their last change
  std::unordered_map<std::string, std::uint64_t> last_change_;

  bool leads_ = false;
  std::deque<std::pair<std::uint64_t, View>> views_;  ///< the last one that all its members have, and those since
  std::map<std::string, Followed, std::less<>> followed_;
  Ids ended_in_time_;  ///< members of these views that have ended before they could vote for another leader
  std::deque<Held> held_;

  bool joined_ = false;
  bool orphaned_ = false;  ///< its leader has ended, or it leads no more
  bool ended_in_time_of_leader_ = false;
  std::optional<Time> heard_;      ///< of its leader
  std::optional<Time> confirmed_;  ///< when it asked the leader for its last answer as a member
  std::uint64_t promised_ = 0;
  Time voted_{};
  Address leader_;
};

}  // namespace lockstep::store
