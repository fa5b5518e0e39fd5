// Decisions about workers, with time as an argument.
#include <lockstep/membership/admission.h>
#include <lockstep/membership/decisions.h>
#include <lockstep/membership/membership.h>
#include <lockstep/membership/service/state_writer.h>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace lockstep::membership {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;

const Time kStart{std::chrono::hours(1000)};

Membership new_membership(int wanted, bool recovery = false) {
  Membership membership;
  membership.job = "job";
  membership.wanted = wanted;
  membership.recovery = recovery;
  membership.changed = kStart;
  return membership;
}

Applicant applicant(const std::string& id, std::uint64_t connection, const std::string& life = "") {
  Applicant one;
  one.request.node_id = id;
  one.request.named = true;
  one.request.life = life.empty() ? fmt::format("life of {}", id) : life;
  one.request.host = "host";
  one.request.machine = "machine";
  one.request.pid = static_cast<std::int64_t>(connection);
  one.connection = connection;
  one.address = "10.0.0.1";
  return one;
}

Admission come(Membership& membership, const Applicant& one, Time now) {
  const Admission admission = admit(membership, one, now);
  if (admission.verdict == Verdict::welcome || admission.verdict == Verdict::welcome_back) {
    enter(membership, one, admission, now);
  }
  return admission;
}

/// A job of so many workers w0, w1, ... on connections 1, 2, ..., which computes.
Membership running(int wanted, bool recovery = false) {
  Membership membership = new_membership(wanted, recovery);
  for (int i = 0; i < wanted; ++i) {
    come(membership, applicant(fmt::format("w{}", i), static_cast<std::uint64_t>(i + 1)), kStart);
  }
  EXPECT_TRUE(assign_ranks(membership, "key", kStart));
  return membership;
}

Membership with_lost(Membership membership, std::uint64_t connection, Time now) {
  EXPECT_TRUE(note_closed(membership, connection, "it closed the connection", now));
  return membership;
}

/// The membership of a scheduler that was restarted.
Membership restarted(const Membership& membership, Time now) {
  Membership next = new_membership(membership.wanted, membership.recovery);
  read_state(print_state(membership), next, now);
  return next;
}

struct MembershipCase {
  const char* what;
  Membership membership;
  Applicant who;
  Time when;
  Verdict verdict;
  const char* words;  ///< in the reason
  std::optional<std::string> replaces = std::nullopt;
};

Applicant of_another_version() {
  Applicant one = applicant("a", 9);
  one.request.protocol = 2;
  return one;
}

Applicant of_job(const char* job) {
  Applicant one = applicant("w0", 9, "another life");
  one.request.job = job;
  one.request.generation = 1;
  one.request.rank = 0;
  return one;
}

Applicant who_was_away(const std::string& id) {
  Applicant one = applicant(id, 9);
  one.request.job = "job";
  one.request.generation = 1;
  return one;
}

/// A worker of `generation`, on its way back.
Applicant of_generation(int generation, const std::string& id, int rank, const std::string& life = "") {
  Applicant one = applicant(id, static_cast<std::uint64_t>(20 + rank), life);
  one.request.job = "job";
  one.request.generation = generation;
  one.request.rank = rank;
  return one;
}

Applicant challenged_at(Applicant one, Time when) {
  one.challenged = when;
  one.challenged_life = "life of w0";
  return one;
}

Membership finished_by_w0(bool recovery = true) {
  Membership membership = running(2, recovery);
  note_leave(membership, *find_member(membership, "w0"), Leave{}, kStart);
  note_closed(membership, 1, "it closed the connection", kStart);
  return membership;
}

Membership one_of_two() {
  Membership membership = new_membership(2);
  come(membership, applicant("w0", 1), kStart);
  return membership;
}

Membership heard(Membership membership, const std::string& id, Time when) {
  find_member(membership, id)->heard = when;
  return membership;
}

const Time kSoon = kStart + seconds(5);
const Time kLate = kStart + seconds(30);

Applicant of_turn(int turn, Applicant one) {
  one.request.turn = turn;
  return one;
}

/// Its w0 is on the second node in a row that has its rank.
Membership taken_by_another_node() {
  Membership membership = running(2, true);
  come(membership, of_turn(1, applicant("w0", 7, "a later life")), kSoon);
  return membership;
}

std::vector<MembershipCase> cases() {
  const Applicant again = applicant("w0", 9, "another life");
  return {
      {"the first", new_membership(2), applicant("w0", 1), kStart, Verdict::welcome, "a place is free"},
      {"without a name", new_membership(2), applicant("", 1), kStart, Verdict::refuse, "no node id"},
      {"another version", new_membership(2), of_another_version(), kStart, Verdict::refuse, "same version of Lockstep"},
      {"one too many at the start", running(2), applicant("w2", 9), kSoon, Verdict::refuse, "2 of 2 (MS_WORKER_NUM)"},
      {"one too many, with recovery", running(2, true), applicant("w2", 9), kSoon, Verdict::refuse, "enough workers"},
      {"the same process on a new connection", running(2), applicant("w0", 9), kSoon, Verdict::welcome_back,
       "has connected again"},
      {"and after it was thought to be lost", with_lost(running(2), 1, kSoon), applicant("w0", 9), kLate,
       Verdict::welcome_back, "has connected again"},
      // A node id that is taken.
      {"by one that may be alive", running(2), again, kSoon, Verdict::challenge, "it has 25 s to answer"},
      {"by one that has not answered yet", running(2), challenged_at(again, kSoon), kSoon + seconds(1),
       Verdict::challenge, "24 s to answer"},
      {"by one that answers", heard(running(2), "w0", kSoon + milliseconds(1)), challenged_at(again, kSoon),
       kSoon + seconds(1), Verdict::refuse, "which is alive; give each worker its own MS_NODE_ID"},
      {"at the start too", heard(one_of_two(), "w0", kSoon + milliseconds(1)), challenged_at(again, kSoon), kLate,
       Verdict::refuse, "worker 'w0' (pid 1 on host), which is alive"},
      {"by one that is known to be dead", with_lost(running(2, true), 1, kSoon), again, kSoon, Verdict::welcome,
       "in the place of worker 'w0' (rank 0, pid 1 on host), which has lost its connection", "w0"},
      {"by one that was silent for too long", running(2, true), again, kLate, Verdict::welcome,
       "sent no heartbeat for 30 s", "w0"},
      {"by one that is dead, and there is no recovery", with_lost(running(2), 1, kSoon), again, kSoon, Verdict::refuse,
       "start the whole job again, with MS_ENABLE_RECOVERY=1"},
      {"by one that is dead, and nothing has begun", with_lost(one_of_two(), 1, kSoon), again, kSoon, Verdict::welcome,
       "in the place of", "w0"},
      // On a node that takes the place of a lost one.
      {"by one of a node that came later", running(2, true), of_turn(1, again), kSoon, Verdict::welcome,
       "in the place of worker 'w0' (rank 0, pid 1 on host), which was on a node that is replaced", "w0"},
      {"by one of the node before", taken_by_another_node(), again, kSoon, Verdict::refuse,
       "another one has its ranks"},
      {"by one of the same node", taken_by_another_node(), of_turn(1, again), kSoon, Verdict::challenge,
       "may be alive"},
      {"by one that has finished", finished_by_w0(), again, kSoon, Verdict::refuse, "has finished its work"},
      // Places that are free again.
      {"a spare for a dead one", with_lost(running(2, true), 2, kSoon), applicant("new", 9), kSoon, Verdict::welcome,
       "in the place of worker 'w1'", "w1"},
      {"no spare without recovery", with_lost(running(2), 2, kSoon), applicant("new", 9), kSoon, Verdict::refuse,
       "enough workers"},
      {"no spare for one that has finished", finished_by_w0(), applicant("new", 9), kSoon, Verdict::refuse,
       "enough workers"},
      // The next program of the same workers.
      {"by one whose program follows", finished_by_w0(false), again, kSoon, Verdict::put_off,
       "the previous job is ending"},
      {"a new name, by one whose program follows", finished_by_w0(false), applicant("new", 9), kSoon, Verdict::put_off,
       "worker 'w0' (rank 0, pid 1 on host) has finished its work"},
      // Partitions, and schedulers that come and go.
      {"one that was replaced while it was disconnected", running(2, true), who_was_away("gone"), kSoon,
       Verdict::refuse, "its place was given to another worker"},
      {"of another job", running(2, true), of_job("another"), kSoon, Verdict::refuse,
       "a job that this scheduler does not"},
      {"back at a new scheduler", restarted(running(2, true), kSoon), applicant("w1", 9), kSoon, Verdict::welcome_back,
       "has connected again"},
      {"another process at a new scheduler, which cannot know who died", restarted(running(2, true), kSoon), again,
       kSoon + seconds(1), Verdict::challenge, "29 s to answer"},
      {"until that has waited", restarted(running(2, true), kSoon), challenged_at(again, kSoon), kSoon + seconds(30),
       Verdict::welcome, "sent no heartbeat for 30 s", "w0"},
      {"whom the old one had seen to die", restarted(with_lost(running(2, true), 1, kStart), kSoon), again, kSoon,
       Verdict::welcome, "has lost its connection", "w0"},
  };
}

TEST(Membership, Admission) {
  for (const MembershipCase& one : cases()) {
    SCOPED_TRACE(one.what);
    const Admission admission = admit(one.membership, one.who, one.when);
    EXPECT_EQ(static_cast<int>(admission.verdict), static_cast<int>(one.verdict)) << admission.reason;
    EXPECT_THAT(admission.reason, HasSubstr(one.words));
    EXPECT_EQ(admission.replaces, one.replaces);
  }
}

RankAssignment assigned(const MemberPlace& place) {
  RankAssignment assignment;
  static_cast<MemberPlace&>(assignment) = place;
  return assignment;
}

TEST(Membership, ServersHavePlacesOfTheirOwn) {
  const auto one_of = [](const std::string& id, std::uint64_t connection, bool server, int servers) {
    auto one = applicant(id, connection);
    one.request.server = server;
    one.request.servers = servers;
    return one;
  };
  auto membership = new_membership(2);
  EXPECT_EQ(come(membership, one_of("s0", 1, true, 1), kStart).verdict, Verdict::welcome) << "servers may come first";
  EXPECT_EQ(membership.wanted, 3);
  const auto second = come(membership, one_of("s1", 2, true, 1), kStart);
  EXPECT_EQ(second.verdict, Verdict::refuse);
  EXPECT_THAT(second.reason, HasSubstr("there are enough parameter servers: 1 of 1 (MS_SERVER_NUM)"));
  const auto without = come(membership, applicant("w", 3), kStart);
  EXPECT_EQ(without.verdict, Verdict::refuse);
  EXPECT_THAT(without.reason, HasSubstr("a job with 0 parameter server(s), and the others to a job with 1"));
  EXPECT_THAT(come(membership, one_of("s0", 4, false, 1), kStart).reason, HasSubstr("that of a parameter server"));
  for (const auto connection : {5, 6}) {
    const auto id = fmt::format("w{}", connection);
    EXPECT_EQ(come(membership, one_of(id, static_cast<std::uint64_t>(connection), false, 1), kStart).verdict,
              Verdict::welcome);
  }
  EXPECT_THAT(come(membership, one_of("w7", 7, false, 1), kStart).reason, HasSubstr("enough workers: 2 of 2"));
  ASSERT_TRUE(assign_ranks(membership, "key", kStart));
  EXPECT_EQ(find_member(membership, "s0")->rank, 2);

  auto read = new_membership(2);
  read_state(print_state(membership), read, kSoon);
  EXPECT_EQ(read.wanted, 3);
  EXPECT_EQ(read.servers, 1);
  EXPECT_TRUE(find_member(read, "s0")->server);
}

TEST(Membership, NobodyHasARankBeforeAllAreThere) {
  Membership membership = one_of_two();
  EXPECT_FALSE(assign_ranks(membership, "key", kStart));
  EXPECT_STREQ(name(state_of(membership)), "CLUSTER_STARTING");
  come(membership, applicant("w1", 2), kStart);
  Membership lost = with_lost(membership, 1, kSoon);
  EXPECT_FALSE(assign_ranks(lost, "key", kSoon)) << "one that left before all were there";
  ASSERT_TRUE(assign_ranks(membership, "key", kStart));
  EXPECT_FALSE(assign_ranks(membership, "other", kStart)) << "they compute already";
  EXPECT_STREQ(name(state_of(membership)), "CLUSTER_READY");
  EXPECT_EQ(membership.generation, 1);
  const RankAssignment session = assignment_of(membership, *find_member(membership, "w1"));
  EXPECT_EQ(session, assigned({1, 1, 2, 1, 2, "key"}));
}

TEST(Membership, LocalRanksAreThoseOfAMachine) {
  Membership membership = new_membership(3);
  for (const auto& [id, machine] :
       std::vector<std::pair<std::string, std::string>>{{"0", "a"}, {"1", "b"}, {"2", "a"}}) {
    Applicant one = applicant(id, 1 + static_cast<std::uint64_t>(id[0] - '0'));
    one.request.machine = machine;
    come(membership, one, kStart);
  }
  ASSERT_TRUE(assign_ranks(membership, "key", kStart));
  EXPECT_EQ(assignment_of(membership, *find_member(membership, "2")), assigned({1, 2, 3, 1, 2, "key"}));
  EXPECT_EQ(assignment_of(membership, *find_member(membership, "1")), assigned({1, 1, 3, 0, 1, "key"}));
}

TEST(Membership, AReplacementKeepsTheRankAndWaitsForTheNextRendezvous) {
  Membership membership = with_lost(running(2, true), 2, kSoon);
  EXPECT_STREQ(name(state_of(membership)), "NODE_TIMEOUT");
  EXPECT_THAT(membership.last_error, HasSubstr("worker 'w1' (rank 1, pid 2 on host) is lost"));
  come(membership, applicant("w1", 9, "another life"), kSoon);
  const Member& member = *find_member(membership, "w1");
  EXPECT_EQ(member.rank, 1);
  EXPECT_EQ(member.restarts, 1);
  EXPECT_EQ(member.last_error, "it closed the connection");
  EXPECT_FALSE(assign_ranks(membership, "key2", kSoon)) << "w0 still computes";
  // It gives up, and comes again.
  note_leave(membership, *find_member(membership, "w0"), Leave{false, "rank 1 was lost"}, kSoon);
  EXPECT_FALSE(note_closed(membership, 1, "it closed the connection", kSoon)) << "nobody is lost who has said so";
  come(membership, applicant("w0", 10, "another life"), kSoon);
  ASSERT_TRUE(assign_ranks(membership, "key2", kSoon));
  EXPECT_EQ(assignment_of(membership, member).rank, 1);
  EXPECT_EQ(membership.generation, 2);
  EXPECT_EQ(membership.last_error, "") << "all are well again";
  EXPECT_EQ(member.last_error, "it closed the connection");
}

TEST(Membership, ANewIdTakesOverTheRank) {
  Membership membership = with_lost(running(2, true), 2, kSoon);
  come(membership, applicant("spare", 9), kSoon);
  EXPECT_EQ(find_member(membership, "spare")->rank, 1);
  EXPECT_EQ(find_member(membership, "w1"), nullptr);
  EXPECT_EQ(admit(membership, applicant("w1", 10, "life of w1"), kSoon).verdict, Verdict::refuse);
}

TEST(Membership, ANewIdTakesThePlaceOfALostWorkerOfItsMachineFirst) {
  Membership membership = running(2, true);
  find_member(membership, "w1")->machine = "another machine";
  membership = with_lost(with_lost(membership, 1, kSoon), 2, kSoon);
  auto spare = applicant("spare", 9);
  spare.request.machine = "another machine";
  come(membership, spare, kSoon);
  EXPECT_EQ(find_member(membership, "spare")->rank, 1);
  come(membership, applicant("second", 10), kSoon);
  EXPECT_EQ(find_member(membership, "second")->rank, 0);
}

TEST(Membership, WorkersKnowMoreThanASavedStateThatIsOld) {
  // Saved in generation 1; since then w0 was restarted, a spare took the place of w1, and nobody could save that.
  Membership membership = restarted(running(3, true), kSoon);
  const auto back = come(membership, of_generation(3, "w0", 0, "another life"), kSoon);
  EXPECT_THAT(back.reason, HasSubstr("generation 3, which the saved state does not have"));
  EXPECT_EQ(membership.generation, 3);
  come(membership, of_generation(3, "spare", 1), kSoon);
  EXPECT_EQ(find_member(membership, "w1"), nullptr);
  come(membership, of_generation(3, "w2", 2), kSoon);
  EXPECT_STREQ(name(state_of(membership)), "CLUSTER_READY");
  for (const auto* id : {"w0", "spare", "w2"}) {
    Member& member = *find_member(membership, id);
    EXPECT_EQ(assignment_of(membership, member).generation, 3) << id;
    EXPECT_TRUE(note_again(membership, member, {3, "why"}, kSoon)) << id;
  }
  EXPECT_TRUE(assign_ranks(membership, "key", kSoon));
  EXPECT_EQ(membership.generation, 4);
  EXPECT_EQ(assignment_of(membership, *find_member(membership, "spare")).rank, 1);
}

TEST(Membership, AGenerationThatWasNeverSavedComesBackWhole) {
  // Saved before the first rendezvous: w0 is lost, and w2 has not registered. Then a replacement of w0 and w2
  // registered.
  Membership membership = new_membership(3, true);
  come(membership, applicant("w0", 1), kStart);
  come(membership, applicant("w1", 2), kStart);
  membership = restarted(with_lost(membership, 1, kSoon), kSoon);
  for (const auto& [id, life] : {std::pair("w1", ""), std::pair("w0", "another life"), std::pair("w2", "")}) {
    const auto back = come(membership, of_generation(1, id, id[1] - '0', life), kSoon);
    EXPECT_EQ(back.verdict, Verdict::welcome_back) << id << ": " << back.reason;
    // The state may be saved and restored between two of them.
    const auto again = restarted(membership, kSoon);
    EXPECT_EQ(again.saved_generation, 0);
  }
  EXPECT_STREQ(name(state_of(membership)), "CLUSTER_READY");
  EXPECT_FALSE(membership.broken);
  EXPECT_EQ(admit(membership, of_generation(1, "w3", 1), kSoon).verdict, Verdict::refuse) << "all places are taken";
}

TEST(Membership, TheLossOfAPlaceThatIsOutdatedBreaksTheGeneration) {
  // Generation 2 was not saved. w0 returns from it; w1, which has a replacement now, may have been in it.
  Membership membership = running(2, true);
  note_again(membership, *find_member(membership, "w1"), {1, "why"}, kSoon);
  membership = restarted(membership, kSoon);
  come(membership, of_generation(2, "w0", 0), kSoon);
  EXPECT_FALSE(is_outdated(membership, *find_member(membership, "w0")));
  EXPECT_TRUE(is_outdated(membership, *find_member(membership, "w1")));
  membership.broken.reset();
  membership.over.reset();
  come(membership, applicant("w1", 9, "another life"), kSoon + seconds(31));
  EXPECT_TRUE(membership.over);
  EXPECT_FALSE(is_outdated(membership, *find_member(membership, "w1"))) << "its process is known";
}

TEST(Membership, AWorkerWhosePlaceWasTakenDoesNotKnowMore) {
  Membership membership = with_lost(running(2, true), 2, kSoon);
  come(membership, applicant("w1", 9, "another life"), kSoon);
  EXPECT_EQ(admit(membership, of_generation(1, "w1", 1), kSoon).verdict, Verdict::challenge);
  EXPECT_EQ(admit(restarted(membership, kSoon), of_generation(1, "w1", 1), kSoon).verdict, Verdict::challenge);
}

TEST(Membership, ConnectionsThatWereLostAndCameBackBreakNothing) {
  Membership membership = with_lost(with_lost(running(2, true), 1, kSoon), 2, kSoon);
  ASSERT_TRUE(membership.broken);
  come(membership, applicant("w0", 9), kSoon);
  EXPECT_TRUE(membership.broken) << "w1 is away";
  come(membership, applicant("w1", 10), kSoon);
  EXPECT_FALSE(membership.broken);
  EXPECT_TRUE(find_hanging(membership, kSoon + seconds(1000)).empty());
}

TEST(Membership, ASchedulerThatWasStoppedExcusesSilence) {
  Membership membership = running(2, true);
  excuse_missed_heartbeats(membership, seconds(100));
  EXPECT_TRUE(find_missed_heartbeats(membership, kStart + seconds(129)).empty());
  EXPECT_EQ(find_missed_heartbeats(membership, kStart + seconds(130)).size(), 2U);
}

TEST(Membership, SilenceIsFoundAtItsTime) {
  const Membership membership = heard(running(2), "w1", kStart + seconds(1));
  EXPECT_TRUE(find_missed_heartbeats(membership, kStart + milliseconds(29'999)).empty());
  EXPECT_EQ(find_missed_heartbeats(membership, kStart + seconds(30)), std::vector<std::uint64_t>{1});
  EXPECT_EQ(find_missed_heartbeats(membership, kStart + seconds(31)), (std::vector<std::uint64_t>{1, 2}));
}

TEST(Membership, NobodyHangsBecauseAConnectionWasLostForAWhile) {
  for (const bool recovery : {false, true}) {
    Membership membership = with_lost(running(2, recovery), 2, kSoon);
    EXPECT_EQ(come(membership, applicant("w1", 3), kSoon + seconds(1)).verdict, Verdict::welcome_back);
    EXPECT_TRUE(find_hanging(membership, kSoon + seconds(1000)).empty());
  }
  // But the others may have given up meanwhile.
  Membership membership = with_lost(running(2, true), 2, kSoon);
  note_again(membership, *find_member(membership, "w0"), {1, "why"}, kSoon + seconds(1));
  come(membership, applicant("w1", 3), kSoon + seconds(1));
  EXPECT_EQ(find_hanging(membership, kSoon + seconds(1000)), std::vector<std::uint64_t>{3});
}

TEST(Membership, WhoDoesNotNoticeTheEndOfAGenerationHangs) {
  Membership membership = with_lost(running(3, true), 2, kSoon);
  note_again(membership, *find_member(membership, "w0"), {1, "why"}, kSoon + seconds(1));
  EXPECT_TRUE(find_hanging(membership, kSoon + seconds(120)).empty());
  EXPECT_EQ(find_hanging(membership, kSoon + seconds(121)), std::vector<std::uint64_t>{3});
  note_again(membership, *find_member(membership, "w2"), {1, "why"}, kSoon + seconds(121));
  EXPECT_TRUE(find_hanging(membership, kSoon + seconds(122)).empty());
  EXPECT_EQ(find_hanging(with_lost(running(2), 2, kSoon), kSoon + seconds(120)), std::vector<std::uint64_t>{1})
      << "without recovery too: the job must end";
  EXPECT_TRUE(find_hanging(running(2), kSoon + seconds(1000)).empty());
}

TEST(Membership, SurvivorsAndAReplacementAreInTheNextGeneration) {
  Membership membership = with_lost(running(3, true), 2, kSoon);
  EXPECT_TRUE(note_again(membership, *find_member(membership, "w0"), {1, "why"}, kSoon));
  EXPECT_FALSE(note_again(membership, *find_member(membership, "w0"), {1, "why"}, kSoon));  // it waits already
  EXPECT_FALSE(
      note_again(membership, *find_member(membership, "w2"), {2, "why"}, kSoon));  // there was no such generation
  EXPECT_TRUE(note_again(membership, *find_member(membership, "w2"), {1, "why"}, kSoon));
  EXPECT_FALSE(assign_ranks(membership, "second key", kSoon));
  come(membership, applicant("w1", 9, "another life"), kSoon);
  ASSERT_TRUE(assign_ranks(membership, "second key", kSoon));
  EXPECT_EQ(membership.generation, 2);
  EXPECT_EQ(find_member(membership, "w0")->restarts, 0);
  EXPECT_EQ(find_member(membership, "w1")->restarts, 1);
  EXPECT_EQ(find_member(membership, "w1")->rank, 1);
}

Membership left(Membership membership, const std::string& id, bool ok, Time when) {
  Member& member = *find_member(membership, id);
  note_leave(membership, member, {ok, ok ? "" : "it failed"}, when);
  note_closed(membership, member.connection, "it closed the connection", when);
  return membership;
}

struct EndCase {
  const char* what;
  Membership membership;
  Time when;
  std::optional<bool> ok;  ///< nullopt: it goes on
  const char* words;
};

TEST(Membership, RanksThatAreLost) {
  EXPECT_THAT(lost_ranks(new_membership(3, true)), testing::IsEmpty());
  Membership membership = running(3, true);
  EXPECT_THAT(lost_ranks(membership), testing::IsEmpty());
  membership = with_lost(with_lost(membership, 3, kStart), 2, kStart);
  EXPECT_THAT(lost_ranks(membership), testing::ElementsAre(1, 2));
  come(membership, applicant("w2", 7, "another life"), kStart + seconds(10));
  EXPECT_THAT(lost_ranks(membership), testing::ElementsAre(1));
  note_leave(membership, *find_member(membership, "w0"), {true, ""}, kStart + seconds(11));
  EXPECT_THAT(lost_ranks(membership), testing::ElementsAre(1)) << "the job is complete without it";
}

TEST(Membership, TheJobEnds) {
  const Membership two = running(2);
  const Membership recovering = running(2, true);
  const auto minutes = [](int n) { return kStart + std::chrono::minutes(n); };
  const std::vector<EndCase> cases = {
      {"not while it runs", two, minutes(1000), std::nullopt, ""},
      {"when all are done", left(left(two, "w0", true, kStart), "w1", true, kStart), kStart, true, ""},
      {"not when one is", left(two, "w0", true, kStart), minutes(1000), std::nullopt, ""},
      {"when all failed", left(left(two, "w1", false, kStart), "w0", false, kStart), kStart, false,
       "worker 'w1' (rank 1, pid 2 on host) failed: it failed"},
      {"not while one may come back", with_lost(left(two, "w0", false, kStart), 2, kStart), kStart + seconds(4),
       std::nullopt, ""},
      {"when it has not", with_lost(left(two, "w0", false, kStart), 2, kStart), kSoon, false, "worker 'w0'"},
      {"not while a replacement may come", with_lost(recovering, 2, kStart), minutes(14), std::nullopt, ""},
      {"when none has come", with_lost(recovering, 2, kStart), minutes(15), false,
       "no process took the place of worker 'w1' (rank 1, pid 2 on host) for 900 s"},
      {"nor when all failed", left(left(recovering, "w0", false, kStart), "w1", false, kStart), minutes(14),
       std::nullopt, ""},
      {"when all are done, recovery or not", left(left(recovering, "w0", true, kStart), "w1", true, kStart), kStart,
       true, ""},
      {"when one is done, and another has died since", with_lost(left(recovering, "w0", true, kStart), 2, kStart),
       kSoon, true, ""},
      {"not while one is still about to say that it is done", left(recovering, "w0", true, kStart), minutes(1000),
       std::nullopt, ""},
      {"not at the start", one_of_two(), minutes(14), std::nullopt, ""},
      {"when nobody else comes", one_of_two(), minutes(15), false, "1 of 2 workers have registered"},
  };
  for (const EndCase& one : cases) {
    SCOPED_TRACE(one.what);
    const auto ending = find_ending(one.membership, one.when);
    ASSERT_EQ(ending.has_value(), one.ok.has_value());
    if (!ending) continue;
    EXPECT_EQ(ending->ok, *one.ok);
    EXPECT_THAT(ending->reason, HasSubstr(one.words));
  }
}

TEST(Admission, TwoPlacesChangeTheirRanksWhereTheSavedStateIsOlder) {
  Membership saved = running(2, true);
  for (Member& member : saved.members) member.link = Link::unknown;
  auto worker = applicant("w0", 7);
  worker.request.job = "job";
  worker.request.generation = saved.generation + 1;  // after another restart, with a random id, it got the other place
  worker.request.rank = 1;
  worker.request.store_key = "next";
  EXPECT_EQ(come(saved, worker, kStart).verdict, Verdict::welcome_back);
  EXPECT_EQ(find_member(saved, "w0")->rank, 1);
  EXPECT_EQ(find_member(saved, "w1")->rank, 0);
}

}  // namespace
}  // namespace lockstep::membership
