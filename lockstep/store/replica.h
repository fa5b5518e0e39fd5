// One process's copy of a store that several processes have, and its part in electing the leader. Contains the logic
// only, without network I/O: the server passes requests to it, and its keeper (replica_keeper.h) everything else.
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

/// The leader executes the requests of clients. It withholds each answer until all other members have the changes that
/// the answer shows; any other process answers Status::elsewhere. Members request changes from the leader (`follow`);
/// the next request confirms all earlier changes. Thread-safe.
class Replica {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::size_t kMostMembers = 5;

  /// `lease`: the lease of the store, if this process is its first leader (View::lease).
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
  /// Handles the answer to a `follow` that was sent at `asked`. outside: there are enough members. refused: the answer
  /// is from a leader that this process has given up.
  Taken take(std::string_view copied, Time asked, Time now);
  /// Sets the address of the leader of that view. If this process has voted for another candidate since, it starts
  /// again, once it has waited for that candidate without success.
  void follow_leader(const Address& leader, const View& view, Time now);
  /// Clears the address of the leader.
  void forget_leader();
  /// Records that the process of the leader has ended; returns whether `now` is during the lease.
  bool note_leader_ended(const std::string& leader, Time now);
  /// Votes for itself; false when it may not, or not yet.
  bool stand_for_election(std::uint64_t epoch, Time now);
  /// Becomes the leader in that epoch, without the members that have ended, and with those that have voted for it.
  /// False when it has voted for another candidate since, or the votes are older than the lease.
  bool lead(std::uint64_t epoch, const Ids& ended, const std::vector<Member>& voters, Time now);
  /// The members whose connection to this leader has ended. The second function records that the process of one of them
  /// has ended, too.
  std::vector<Member> lost_members() const;
  void note_member_ended(const std::string& member, Time now);

 private:
  struct Followed {
    std::optional<std::uint64_t> connection{};
    std::optional<std::uint64_t> pending{};  ///< number of its request
    std::optional<std::uint64_t> has{};      ///< the number of changes in its copy; nullopt: a copy of another leader
    Time heard{};
    Time asked{};
    std::optional<Time> sent{};       ///< its last answer, on this connection
    std::optional<Time> confirmed{};  ///< when the last answer that it has received was sent
    bool ended = false;
    bool ended_in_time = false;
  };
  struct Held {
    std::uint64_t change = 0;  ///< the change that the members must have
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
  std::deque<std::pair<std::uint64_t, View>> views_;  ///< the last view that all its members have, and the views since
  std::map<std::string, Followed, std::less<>> followed_;
  Ids ended_in_time_;  ///< members of these views that have ended before they could vote for another leader
  std::deque<Held> held_;

  bool joined_ = false;
  bool orphaned_ = false;  ///< its leader has ended, or this process stopped leading
  bool ended_in_time_of_leader_ = false;
  std::optional<Time> heard_;      ///< the last message from its leader
  std::optional<Time> confirmed_;  ///< when it requested the leader's last answer as a member
  std::uint64_t promised_ = 0;
  Time voted_{};
  Address leader_;
};

}  // namespace lockstep::store
