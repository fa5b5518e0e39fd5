// From one look at a job to the next: rows, events, curves, and bounds; and the messages made from them.
#include <lockstep/base/error.h>
#include <lockstep/dashboard/job_json.h>
#include <lockstep/dashboard/job_view.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

namespace lockstep::dashboard {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

/// A job of some ranks that a test moves on.
class Job {
 public:
  explicit Job(int ranks) {
    view_.job = {.name = "run-1", .program = "train", .version = "1.0", .host = "a", .started = 1000, .notes = {}};
    facts_.world = ranks;
    for (int i = 0; i < ranks; ++i) facts_.ranks.push_back(process(i, 100 + i));
  }

  RankFacts& rank(int which) { return facts_.ranks.at(static_cast<std::size_t>(which)); }
  JobFacts& facts() { return facts_; }
  const JobView& view() const { return view_; }
  const RankRow& row(int which) const { return view_.ranks.at(which).row; }
  const Changes& changes() const { return changes_; }
  json whole() const { return json::parse(whole_json(view_)); }
  json update() const { return json::parse(changes_json(view_, changes_)); }

  /// Another process has the rank's place.
  void replace(int which, std::int64_t pid, const std::string& end) {
    rank(which) = process(which, pid);
    rank(which).process.end_before = end;
  }

  void complete(int which, std::int64_t step) {
    if (!rank(which).progress) rank(which).progress.emplace();
    rank(which).progress->step = step;
  }
  void complete_all(std::int64_t step) {
    for (const auto& one : facts_.ranks) complete(one.process.rank, step);
  }

  void look_after(double seconds) {
    facts_.at += seconds;
    auto next = observe(std::move(view_), facts_);
    view_ = std::move(next.view);
    changes_ = std::move(next.changes);
    facts_.decisions.clear();
  }
  void end(std::optional<int> code, const std::string& why) {
    auto next = end_job(std::move(view_), {code, why}, facts_.at);
    view_ = std::move(next.view);
    changes_ = std::move(next.changes);
  }

  /// "kind: text" of the events since the last look but one.
  std::vector<std::string> news() const {
    std::vector<std::string> news;
    for (const auto& event : view_.events) {
      if (event.id > changes_.events_before) news.push_back(event.kind + ": " + event.text);
    }
    return news;
  }

 private:
  static RankFacts process(int rank, std::int64_t pid) {
    RankFacts facts;
    facts.process.rank = rank;
    facts.process.pid = pid;
    return facts;
  }

  JobView view_;
  JobFacts facts_;
  Changes changes_;
};

TEST(JobView, BeginsWithTheFirstStepOfAllRanks) {
  Job job(2);
  job.look_after(0);
  EXPECT_THAT(job.news(), ElementsAre("start: 2 ranks begin"));
  EXPECT_TRUE(job.changes().other_ranks);
  EXPECT_EQ(job.whole()["job"]["state"], "starting");
  EXPECT_EQ(job.row(0).state, RankState::starting);

  job.complete(0, 0);
  job.look_after(1);
  EXPECT_EQ(job.row(0).state, RankState::running);
  EXPECT_EQ(job.row(1).state, RankState::starting);
  EXPECT_THAT(job.news(), IsEmpty());
  EXPECT_THAT(job.changes().rows, ElementsAre(0));

  job.rank(1).progress.emplace().ended = CollectiveMark{"all_reduce", 1, "world"};
  job.look_after(1);
  EXPECT_THAT(job.news(), ElementsAre("generation: generation 1 began: 2 ranks compute together at step 0"));
  EXPECT_EQ(job.whole()["job"]["state"], "running");
}

TEST(JobView, AProgramWithoutAStatusPageRunsAfterSomeTime) {
  Job job(1);
  job.look_after(0);
  job.look_after(9);
  EXPECT_EQ(job.row(0).state, RankState::starting);
  job.look_after(1);
  EXPECT_EQ(job.row(0).state, RankState::running);
}

TEST(JobView, TellsOfALossAReturnAndTheNextGeneration) {
  Job job(3);
  job.complete_all(120);
  job.look_after(1);
  job.replace(2, 999, "signal 9 (SIGKILL)");
  job.look_after(1);
  EXPECT_THAT(job.news(),
              ElementsAre("loss: rank 2 (pid 102) was lost at step 120: signal 9 (SIGKILL); pid 999 takes its place"));
  EXPECT_EQ(job.view().events.back().rank, 2);
  EXPECT_EQ(job.row(2).state, RankState::lost) << "its process has no status page yet";
  EXPECT_EQ(job.row(2).generation, 2);
  EXPECT_EQ(job.row(2).step, std::nullopt);
  EXPECT_EQ(job.view().progress.step, 120) << "the step of the others";
  EXPECT_FALSE(job.changes().other_ranks);

  job.rank(2).progress.emplace();
  job.look_after(1);
  EXPECT_EQ(job.row(2).state, RankState::starting);
  EXPECT_THAT(job.news(), IsEmpty());

  job.complete(2, 121);
  job.look_after(1);
  EXPECT_THAT(job.news(), ElementsAre("return: rank 2 (pid 999) takes part again at step 121",
                                      "generation: generation 2 began: 3 ranks compute together at step 120"));
  EXPECT_EQ(job.row(0).generation, 2);
  EXPECT_THAT(job.changes().rows, ElementsAre(0, 1, 2));
}

TEST(JobView, ALostRankOfASchedulerIsLostUntilAnotherProcessOrItselfIsBack) {
  Job job(2);
  job.complete_all(120);
  job.look_after(1);
  job.rank(1).process.state = ProcessState::lost;
  job.rank(1).process.end = "it closed the connection";
  job.look_after(1);
  EXPECT_THAT(job.news(),
              ElementsAre("loss: rank 1 (pid 101) is lost (its last report: step 120): it closed the connection"));
  EXPECT_EQ(job.row(1).state, RankState::lost);
  job.look_after(60);
  EXPECT_THAT(job.news(), IsEmpty());
  EXPECT_EQ(job.row(1).state, RankState::lost);

  // It was only the connection.
  job.rank(1).process.state = ProcessState::running;
  job.look_after(1);
  EXPECT_THAT(job.news(), ElementsAre("return: rank 1 (pid 101) takes part again at step 120"));

  job.rank(1).process.state = ProcessState::lost;
  job.look_after(1);
  EXPECT_THAT(job.news(), ElementsAre(HasSubstr("rank 1 (pid 101) is lost")));
  job.replace(1, 101, "");  // in another container
  job.rank(1).process.life = "another";
  job.rank(1).process.host = "b";
  job.look_after(1);
  EXPECT_THAT(job.news(), IsEmpty()) << "the loss is known";
  EXPECT_EQ(job.whole()["ranks"][1]["host"], "b");
  EXPECT_EQ(job.whole()["ranks"][0]["host"], "a");
  job.complete_all(121);
  job.look_after(1);
  EXPECT_THAT(job.news(), ElementsAre("return: rank 1 (pid 101) takes part again at step 121",
                                      "generation: generation 2 began: 2 ranks compute together at step 121"));
}

TEST(JobFacts, AreMadeOfTheMembersOfASchedulerThatHaveRanks) {
  using membership::Link;
  using membership::Phase;
  membership::Membership job;
  job.wanted = 4;
  job.recovery = true;
  job.generation = 1;
  for (int i = 0; i < 4; ++i) {
    auto& member = job.members.emplace_back();
    member.rank = 3 - i;
    member.pid = 1;
    member.life = std::to_string(i);
    member.host = "pod-" + std::to_string(i);
    member.machine = i < 2 ? "here" : "there";
    member.phase = Phase::running;
  }
  auto& page = job.members[0].page.emplace();
  page.progress.step = 7;
  page.training.samples = 70;
  job.members[0].memory = 4096;
  job.members[1].phase = Phase::finished;
  job.members[2].link = Link::closed;
  job.members[2].last_error = "it closed the connection";
  job.members[3].rank.reset();
  job.members[0].heard = membership::Time(100s);
  const auto facts = look_at(job, membership::Time(102s));
  EXPECT_EQ(facts.world, 4);
  EXPECT_EQ(facts.hosts, 2);
  EXPECT_EQ(facts.generation, 1);
  ASSERT_EQ(facts.ranks.size(), 3U);
  EXPECT_EQ(facts.ranks[2].process.rank, 3);
  EXPECT_EQ(facts.ranks[2].process.host, "pod-0");
  EXPECT_EQ(facts.ranks[2].progress->step, 7);
  EXPECT_EQ(facts.ranks[2].training.samples, 70);
  EXPECT_EQ(facts.ranks[2].memory, 4096U);
  EXPECT_EQ(facts.ranks[2].silent, std::nullopt);
  EXPECT_EQ(look_at(job, membership::Time(106s)).ranks[2].silent, 6.0);
  EXPECT_EQ(facts.ranks[1].process.state, ProcessState::ended);
  EXPECT_EQ(facts.ranks[0].process.state, ProcessState::lost);
  EXPECT_EQ(facts.ranks[0].process.end, "it closed the connection");

  job.members[2].link = Link::unknown;  // the scheduler was started again
  EXPECT_EQ(look_at(job, {}).ranks[0].process.state, ProcessState::running);
  EXPECT_EQ(look_at(job, {}).ranks[0].silent, std::nullopt);
  EXPECT_EQ(look_at(job, membership::Time(4s)).ranks[0].silent, 4.0) << "since the start of the scheduler";

  job.members[2].phase = Phase::failed;
  job.recovery = false;
  EXPECT_EQ(look_at(job, {}).ranks[0].process.state, ProcessState::failed);
}

TEST(JobView, TwoLossesAtOnceGiveOneGeneration) {
  Job job(4);
  job.complete_all(5);
  job.look_after(1);
  job.replace(1, 901, "");
  job.replace(3, 903, "");
  job.look_after(1);
  job.complete(1, 6);
  job.look_after(1);
  EXPECT_EQ(job.view().generation, 1);
  job.complete(3, 6);
  job.look_after(1);
  EXPECT_EQ(job.view().generation, 2);
}

TEST(JobView, ARoundStartsAllRanksAgainWithoutALossOfEach) {
  Job job(2);
  job.complete_all(5);
  job.look_after(1);
  job.rank(1).process.state = ProcessState::failed;
  job.rank(1).process.end = "exit code 3";
  job.look_after(1);
  EXPECT_THAT(job.news(), ElementsAre("loss: rank 1 (pid 101) failed at step 5: exit code 3"));
  job.replace(0, 900, "");
  job.replace(1, 901, "");
  job.facts().round = 2;
  job.look_after(1);
  EXPECT_THAT(job.news(), ElementsAre("decision: round 2: all ranks are started again"));
  job.complete_all(3);
  job.look_after(1);
  EXPECT_THAT(job.news(), Contains("generation: generation 2 began: 2 ranks compute together at step 3"));
}

TEST(JobView, OtherRanksInARoundReplaceThoseOfTheLast) {
  Job job(2);
  job.look_after(1);
  job.facts().round = 2;
  job.facts().ranks.erase(job.facts().ranks.begin());
  job.facts().world = 7;
  job.look_after(1);
  EXPECT_TRUE(job.changes().other_ranks);
  EXPECT_EQ(job.whole()["ranks"].size(), 1U);
  EXPECT_EQ(job.whole()["job"]["world"], 7);
}

TEST(JobView, GroupsTheEndsOfRanksAndEndsTheJob) {
  Job job(3);
  job.complete_all(9);
  job.look_after(1);
  for (const int rank : {0, 2}) job.rank(rank).process.state = ProcessState::ended;
  job.rank(1).process.state = ProcessState::failed;
  job.rank(1).process.end = "exit code 3";
  job.look_after(1);
  EXPECT_THAT(job.news(),
              ElementsAre("loss: rank 1 (pid 101) failed at step 9: exit code 3", "end: ranks 0, 2 ended well"));
  job.look_after(1);
  EXPECT_THAT(job.news(), IsEmpty());
  job.end(3, "rank 1 failed first");
  EXPECT_THAT(job.news(), ElementsAre("end: the job has ended, exit code 3: rank 1 failed first"));
  const auto update = job.update();
  EXPECT_EQ(update["job"]["state"], "ended");
  EXPECT_EQ(update["job"]["exit_code"], 3);
  EXPECT_EQ(update["job"]["end"], "rank 1 failed first");
}

TEST(JobView, ThePageMayEndWithoutTheJob) {
  Job job(1);
  job.complete_all(9);
  job.look_after(1);
  job.end(std::nullopt, "signal 15 ends the scheduler; workers that train go on without it");
  EXPECT_THAT(
      job.news(),
      ElementsAre("end: the page has ended: signal 15 ends the scheduler; workers that train go on without it"));
  EXPECT_EQ(job.update()["job"]["state"], "ended");
  EXPECT_EQ(job.update()["job"]["exit_code"], nullptr);
}

// Without recovery, the others fail because of the first.
TEST(JobView, OnlyTheFirstFailureIsALoss) {
  Job job(2);
  job.complete_all(9);
  job.look_after(1);
  job.rank(1).process.state = ProcessState::lost;
  job.look_after(1);
  EXPECT_THAT(job.news(), ElementsAre("loss: rank 1 (pid 101) is lost (its last report: step 9)"));
  job.rank(0).process.state = ProcessState::failed;
  job.rank(0).process.end = "rank 1 is lost";
  job.look_after(1);
  EXPECT_THAT(job.news(), ElementsAre("end: rank 0 (pid 100) failed at step 9: rank 1 is lost"));

  Job both(2);
  both.complete_all(9);
  both.look_after(1);
  both.rank(0).process.state = ProcessState::failed;
  both.rank(1).process.state = ProcessState::lost;
  both.look_after(1);
  EXPECT_THAT(both.news(), ElementsAre(HasSubstr("end: rank 0"), HasSubstr("loss: rank 1")));
}

TEST(JobView, SaysSinceWhenAJobStandsAndWhoIsMissing) {
  Job job(4);
  const auto reports = [&](int rank, std::chrono::nanoseconds compute) {
    job.rank(rank).training.doing = TimePart::compute;
    job.rank(rank).training.times[static_cast<std::size_t>(TimePart::compute)] = compute;
  };
  for (int i = 0; i <= 10; ++i) {  // a step takes half a second
    job.complete_all(2 * i);
    for (const int rank : {0, 1, 2, 3}) reports(rank, i * 1s);
    job.look_after(1);
  }
  EXPECT_EQ(job.view().progress.stands, std::nullopt);
  EXPECT_EQ(job.whole()["goodput"]["parts"]["lost"], 0.0);
  for (const int rank : {0, 1, 3}) job.rank(rank).progress->begun = CollectiveMark{"all_reduce", 40, "world"};
  job.look_after(2);
  EXPECT_EQ(job.view().progress.stands, std::nullopt);
  job.look_after(1);
  EXPECT_EQ(job.view().progress.stands, 3.0);
  EXPECT_EQ(job.update()["progress"]["why"],
            "Ranks 0, 1, 3 are in all_reduce 40 of group \"world\"; rank 2 is computing");
  job.look_after(27);
  const auto parts = job.whole()["goodput"]["parts"];
  EXPECT_EQ(parts["lost"], 30.0) << "since the last reports";
  EXPECT_EQ(parts["compute"], 10.0);
  job.rank(2).progress->begun = CollectiveMark{"all_reduce", 40, "world"};
  job.look_after(1);
  EXPECT_EQ(job.view().progress.why, "All 4 ranks are in all_reduce 40 of group \"world\"");
  job.rank(1).process.state = ProcessState::lost;
  job.look_after(1);
  EXPECT_EQ(job.view().progress.why, "Ranks 0, 2, 3 are in all_reduce 40 of group \"world\"; rank 1 is lost");
  job.rank(1).process.state = ProcessState::failed;
  job.look_after(1);
  EXPECT_EQ(job.view().progress.why, "Ranks 0, 2, 3 are in all_reduce 40 of group \"world\"; rank 1 has failed");
  job.rank(1).process.state = ProcessState::running;
  job.complete_all(21);
  job.look_after(1);
  EXPECT_EQ(job.view().progress.stands, std::nullopt);

  // A long evaluation is no loss.
  for (const int rank : {0, 1, 2, 3}) {
    job.rank(rank).progress->begun.reset();
    job.rank(rank).training.doing = TimePart::evaluate;
    job.rank(rank).training.times[static_cast<std::size_t>(TimePart::compute)] = 44s;
  }
  job.look_after(30);
  EXPECT_EQ(job.view().progress.why, "All 4 ranks are evaluating");
  EXPECT_EQ(job.whole()["goodput"]["parts"]["lost"], 0.0);
  EXPECT_EQ(job.whole()["goodput"]["parts"]["evaluate"], 30.0);
}

// Its first second made 59 steps, so a step takes at most a second.
TEST(JobView, AJobThatStandsFromItsFirstSecondOn) {
  Job job(2);
  job.look_after(0);
  job.complete_all(59);
  job.rank(0).progress->begun = CollectiveMark{"all_reduce", 222, "world"};
  job.look_after(1);
  job.look_after(4);
  EXPECT_EQ(job.view().progress.stands, std::nullopt);
  job.look_after(1);
  EXPECT_EQ(job.view().progress.stands, 5.0);
}

// What a rank has reported last may be old.
TEST(JobView, ASilentRankIsShownAsSuch) {
  Job job(2);
  job.complete_all(9);
  job.rank(1).training.doing = TimePart::save;
  job.rank(1).progress->begun = CollectiveMark{"all_reduce", 222, "world"};
  job.rank(1).silent = 6.4;
  job.look_after(1);
  EXPECT_EQ(job.row(1).activity, "without a report for 6 s");
  EXPECT_EQ(job.row(1).call, "");
}

TEST(JobView, ARankThatRecoversIsInNoCall) {
  Job job(1);
  job.complete_all(9);
  job.rank(0).progress->begun = CollectiveMark{"all_reduce", 222, "world"};
  job.rank(0).training.doing = TimePart::lost;
  job.look_after(1);
  EXPECT_EQ(job.row(0).call, "");
  EXPECT_EQ(job.row(0).activity, "recovering");
}

// Nothing goes on between a loss and the return of the rank, whatever the others have reported last.
TEST(JobView, TheTimeWithoutARankIsLost) {
  Job job(2);
  const auto reports = [&](int rank, std::chrono::nanoseconds compute) {
    job.rank(rank).training.doing = TimePart::compute;
    job.rank(rank).training.times[static_cast<std::size_t>(TimePart::compute)] = compute;
  };
  job.look_after(0);
  for (int i = 1; i <= 10; ++i) {
    job.complete_all(i);
    for (const int rank : {0, 1}) reports(rank, i * 1s);
    job.look_after(1);
  }
  job.rank(0).training.total_steps = 100;
  job.look_after(20);
  const auto standing = job.whole();
  EXPECT_EQ(standing["goodput"]["parts"]["lost"], 20.0);
  EXPECT_EQ(standing["progress"]["seconds_left"], nullptr);
  job.replace(1, 900, "signal 9 (SIGKILL)");
  job.complete(0, 11);
  job.look_after(1);
  EXPECT_EQ(job.whole()["goodput"]["parts"]["lost"], 21.0);
  EXPECT_EQ(job.whole()["goodput"]["parts"]["compute"], 10.0);
  EXPECT_EQ(job.view().progress.step, 11) << "of those that are there";
}

TEST(JobView, ParameterServersAreNoRanksThatTrain) {
  Job job(3);
  job.rank(2).training.serves = true;
  for (int i = 0; i <= 10; ++i) {
    job.complete_all(10 * i);
    for (const int rank : {0, 1}) {
      job.rank(rank).training.samples = 640 * i;
      job.rank(rank).training.times[static_cast<std::size_t>(TimePart::compute)] = i * 1s;
      job.rank(rank).training.blocked = i * 500ms;
    }
    job.look_after(1);
  }
  EXPECT_EQ(job.row(2).activity, "parameter server");
  EXPECT_EQ(job.row(2).straggler, "");
  EXPECT_DOUBLE_EQ(*job.row(0).rate, 320);
  EXPECT_EQ(job.whole()["goodput"]["parts"]["compute"], 10.0);
}

TEST(JobView, AJobThatEndsBeforeItsFirstStepHasNoGeneration) {
  Job job(2);
  job.look_after(1);
  for (const int rank : {0, 1}) job.rank(rank).process.state = ProcessState::ended;
  job.look_after(1);
  EXPECT_THAT(job.news(), ElementsAre("end: ranks 0, 1 ended well"));
}

TEST(JobView, TellsOfSavesEvaluationsAndDecisions) {
  Job job(2);
  job.rank(0).training.saved_step = 40;  // of the run that is resumed
  job.look_after(1);
  job.complete_all(41);
  job.look_after(1);
  EXPECT_THAT(job.news(), ElementsAre(HasSubstr("generation 1")));
  job.rank(1).training.saved_step = 50;
  job.facts().decisions = {"rank 1 is not replaced"};
  job.look_after(1);
  EXPECT_THAT(job.news(), ElementsAre("decision: rank 1 is not replaced", "save: there is a checkpoint of step 50"));
  job.rank(0).training.doing = TimePart::evaluate;
  job.look_after(1);
  EXPECT_THAT(job.news(), ElementsAre("evaluation: an evaluation at step 41"));
  EXPECT_EQ(job.row(0).activity, "evaluating");
  job.look_after(1);
  EXPECT_THAT(job.news(), IsEmpty());
  job.rank(0).training.doing = TimePart::compute;
  job.look_after(1);
  EXPECT_THAT(job.news(), IsEmpty());
  // One between two looks.
  job.rank(0).training.times[static_cast<std::size_t>(TimePart::evaluate)] = 2s;
  job.rank(0).training.metrics = {{"loss", 41, 0.5}, {"eval_loss", 40, 0.6}};
  job.look_after(1);
  EXPECT_THAT(job.news(), ElementsAre("evaluation: an evaluation at step 40"));
}

TEST(JobView, ShowsTheCallInWhichARankIs) {
  Job job(1);
  auto& progress = job.rank(0).progress.emplace();
  progress.begun = CollectiveMark{"all_reduce", 40, "world"};
  job.look_after(1);
  EXPECT_EQ(job.row(0).call, "all_reduce 40 of group \"world\"");
  progress.ended = progress.begun;
  job.look_after(1);
  EXPECT_EQ(job.row(0).call, "");
}

TEST(JobView, GivesRatesAndTheTimeLeft) {
  Job job(2);
  for (int i = 0; i <= 4; ++i) {
    job.complete_all(10 * i);
    for (const int rank : {0, 1}) job.rank(rank).training.samples = 640 * i;
    job.rank(0).training.total_steps = 100;
    job.rank(0).training.epoch = 1;
    job.look_after(1);
  }
  EXPECT_EQ(job.view().progress, (JobProgress{40, 100, 1, 640.0, 6.0, {}, ""}));
  EXPECT_DOUBLE_EQ(*job.row(1).rate, 320) << "its share";
  job.look_after(4);
  EXPECT_DOUBLE_EQ(*job.view().progress.samples_per_s, 320) << "a job that stands gets slower";
}

// Four ranks make a step of 100 ms; rank 2 computes for 90 ms of it, the others for 30.
TEST(JobView, NamesAStragglerAndThoseThatWait) {
  Job job(4);
  for (int i = 0; i <= 10; ++i) {
    job.complete_all(10 * i);
    for (const int rank : {0, 1, 2, 3}) job.rank(rank).training.blocked = i * (rank == 2 ? 100ms : 700ms);
    job.look_after(1);
  }
  EXPECT_EQ(job.row(2).straggler,
            "its own part of a step takes 3.0 times the median of the others: 90.0 ms, not 30.0 ms");
  EXPECT_EQ(job.row(0).straggler, "");
  EXPECT_DOUBLE_EQ(*job.row(0).waits, 0.6);
  EXPECT_DOUBLE_EQ(*job.row(2).waits, 0);
  EXPECT_EQ(job.whole()["ranks"][2]["straggler"], job.row(2).straggler);
  EXPECT_EQ(job.whole()["ranks"][0]["straggler"], nullptr);
}

TEST(JobView, DrawsAPointForEachNewStepOfAMetric) {
  Job job(2);
  job.complete_all(1);
  job.rank(0).training.metrics = {{"loss", 1, 2.5}};
  job.rank(1).training.metrics = {{"loss", 1, 9.0}, {"accuracy", 1, std::nan("")}};
  job.look_after(1);
  EXPECT_EQ(job.update()["curves"], json::parse(R"({"loss": [[1, 2.5]], "accuracy": [[1, null]]})"))
      << "the first rank that has it counts";
  job.look_after(1);
  EXPECT_FALSE(job.update().contains("curves"));
  job.rank(0).training.metrics = {{"loss", 4, std::numeric_limits<double>::infinity()}};
  job.look_after(1);
  EXPECT_EQ(job.update()["curves"], json::parse(R"({"loss": [[4, null]]})"));
  EXPECT_EQ(job.whole()["curves"]["loss"], json::parse("[[1, 2.5], [4, null]]"));
}

// An hour of one look each second, with all that can grow.
TEST(JobView, DoesNotGrowWithTime) {
  Job job(3);
  std::size_t longest = 0;
  for (int i = 0; i < 3600; ++i) {
    job.complete_all(i);
    job.rank(0).training.saved_step = i;
    job.rank(0).training.samples = i * 64;
    for (int metric = 0; metric < 40; ++metric) {
      job.rank(0).training.metrics.resize(40);
      job.rank(0).training.metrics[static_cast<std::size_t>(metric)] = {"m" + std::to_string(metric), i, 0.5};
    }
    job.rank(1).process.lines = std::vector<std::string>(80, "line " + std::to_string(i));
    job.facts().decisions = {std::string(5000, 'x')};
    if (i % 100 == 50) job.replace(2, 1000 + i, "signal 9 (SIGKILL)");
    job.look_after(1);
    longest = std::max(longest, changes_json(job.view(), job.changes()).size());
    ASSERT_LE(job.view().ranks.at(0).marks.size(), 16U);
  }
  EXPECT_EQ(job.view().curves.size(), kMostCurves);
  const auto& points = job.view().curves.at("m0");
  EXPECT_LE(points.size(), kMostPoints);
  EXPECT_GE(points.size(), kMostPoints / 2);
  EXPECT_LT(points.front().first, 4) << "the whole run stays visible";
  EXPECT_EQ(points.back().first, 3599);
  EXPECT_EQ(job.view().events.size(), kMostEvents);
  EXPECT_THAT(job.news(), Not(Contains(HasSubstr("there is a checkpoint")))) << "decisions and losses stay longer";
  EXPECT_EQ(job.view().ranks.at(1).lines.size(), kMostLines);
  EXPECT_LT(longest, 10'000U);
  EXPECT_LT(whole_json(job.view()).size(), 3'000'000U);
  EXPECT_LT(ended_json(job.view()).size(), 3'000'000U);
}

TEST(JobView, GivesTheLastLinesOfARank) {
  Job job(1);
  job.rank(0).process.lines = {"one", "\xff</script>"};
  job.look_after(1);
  EXPECT_THAT(job.changes().lines, ElementsAre(0));
  EXPECT_EQ(json::parse(lines_json(job.view(), 0)),
            json::parse("{\"type\": \"lines\", \"rank\": 0, \"lines\": [\"one\", \"\xef\xbf\xbd</script>\"]}"));
  EXPECT_EQ(json::parse(lines_json(job.view(), 7))["lines"], json::array());
  job.rank(0).process.lines.reset();
  job.look_after(1);
  EXPECT_THAT(job.changes().lines, IsEmpty());
  EXPECT_EQ(json::parse(ended_json(job.view()))["lines"]["0"].size(), 2U);
}

TEST(PageRequests, AreReadStrictly) {
  EXPECT_EQ(parse_request(R"({"type":"lines","rank":3})").rank, 3);
  EXPECT_EQ(parse_request(R"({"type":"lines","rank":null})").rank, std::nullopt);
  const auto kill = parse_request(R"({"rank":0,"type":"kill"})");
  EXPECT_EQ(kill.kind, PageRequest::Kind::kill);
  EXPECT_EQ(kill.rank, 0);
}

TEST(PageRequests, RefuseAllElse) {
  for (const std::string text : {"",
                                 "7",
                                 "null",
                                 "[]",
                                 "{}",
                                 R"({"type":"kill"})",
                                 R"({"rank":1})",
                                 R"({"type":"kill","rank":null})",
                                 R"({"type":"kill","rank":1.5})",
                                 R"({"type":"kill","rank":"1"})",
                                 R"({"type":"kill","rank":true})",
                                 R"({"type":"kill","rank":99999999999})",
                                 R"({"type":"kill","rank":1,"rank":2})",
                                 R"({"type":"sing","rank":1})",
                                 R"({"type":"kill","rank":1,"now":true})",
                                 R"({"type":["kill"],"rank":1})",
                                 R"({"type":"kill","rank":1} x)",
                                 R"({"type":7,"rank":1})",
                                 "{\"type\":\"kill\",\"rank\":[[[[[[[1]]]]]]]}",
                                 "\xff\xfe"}) {
    EXPECT_THROW(parse_request(text), Error) << text;
  }
  EXPECT_THROW(parse_request(std::string(100'000, '[')), Error);
}

}  // namespace
}  // namespace lockstep::dashboard
