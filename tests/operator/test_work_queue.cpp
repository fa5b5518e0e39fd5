// The work queue: each key once, one worker at a time, later after failures. And the cache.
#include <apps/operator/controller/cache.h>
#include <apps/operator/controller/metrics.h>
#include <apps/operator/controller/progress.h>
#include <apps/operator/controller/work_queue.h>
#include <apps/operator/job/json.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

namespace lockstep::kube {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::SizeIs;

// A short job is over before the usual time.
TEST(Progress, OfAJobWithoutAStepIsAskedForAgainWithinASecond) {
  EXPECT_LE(first_step_interval(30s, 1, 1), 1s);
  EXPECT_EQ(first_step_interval(30s, 1000, 1), 500s);
  EXPECT_EQ(first_step_interval(30s, 1, 1'000'000), 30s) << "its scheduler cannot be reached";
}

TEST(WorkQueue, AKeyIsThereOnce) {
  WorkQueue queue;
  const std::stop_source stop;
  queue.add("a");
  queue.add("a");
  EXPECT_EQ(queue.take(stop.get_token()), "a");
  EXPECT_EQ(queue.size(), 1U);
  queue.done("a");
  EXPECT_EQ(queue.size(), 0U);
}

TEST(WorkQueue, WhatIsAddedWhileItIsTakenComesAgainAfterwards) {
  WorkQueue queue;
  const std::stop_source stop;
  queue.add("a");
  queue.add("b");
  EXPECT_EQ(queue.take(stop.get_token()), "a");
  queue.add("a");
  EXPECT_EQ(queue.take(stop.get_token()), "b");  // not "a", which a worker has
  queue.done("a");
  EXPECT_EQ(queue.take(stop.get_token()), "a");
}

TEST(WorkQueue, TheEarlierOfTwoTimesCounts) {
  WorkQueue queue;
  const std::stop_source stop;
  queue.add_after("a", 1h);
  queue.add_after("a", 10ms);
  EXPECT_EQ(queue.take(stop.get_token()), "a");
}

TEST(WorkQueue, AnEarlierTimeWakesAWaitingWorker) {
  WorkQueue queue;
  std::stop_source stop;
  queue.add_after("late", 1h);
  std::jthread adder([&] {
    std::this_thread::sleep_for(50ms);
    queue.add_after("soon", 10ms);
  });
  EXPECT_EQ(queue.take(stop.get_token()), "soon");
}

TEST(WorkQueue, StopEndsTheWait) {
  WorkQueue queue;
  std::stop_source stop;
  std::jthread stopper([&] { stop.request_stop(); });
  EXPECT_EQ(queue.take(stop.get_token()), std::nullopt);
}

nlohmann::json pod(const std::string& name, const std::string& uid, const std::string& job_uid) {
  return {{"metadata",
           {{"name", name},
            {"namespace", "n"},
            {"uid", uid},
            {"labels", {{"lockstep.dev/job-name", "j"}, {"lockstep.dev/job-uid", job_uid}}},
            {"ownerReferences", {{{"uid", job_uid}, {"controller", true}}}}}},
          {"spec", {{"nodeName", "x"}, {"containers", {"much"}}}}};
}

TEST(Cache, ObjectsAreFoundByTheirJob) {
  Cache cache;
  cache.put(pods(), pod("a", "1", "job"));
  cache.put(pods(), pod("b", "2", "other"));
  EXPECT_THAT(cache.owned(pods(), "job"), SizeIs(1));
  EXPECT_FALSE(cache.find(pods(), "n/a")->at("spec").contains("containers"));  // it is not needed
  cache.put(pods(), pod("a", "3", "other"));                                   // the name has another owner now
  EXPECT_THAT(cache.owned(pods(), "job"), SizeIs(0));
  EXPECT_THAT(cache.owned(pods(), "other"), SizeIs(2));
  cache.remove(pods(), "n/a", "1");  // an old one
  EXPECT_THAT(cache.owned(pods(), "other"), SizeIs(2));
  cache.remove(pods(), "n/a", "3");
  EXPECT_THAT(cache.owned(pods(), "other"), SizeIs(1));
}

TEST(Cache, AListReplacesAllOfAKind) {
  Cache cache;
  cache.put(pods(), pod("a", "1", "job"));
  cache.replace_all(pods(), {pod("b", "2", "job")}, "7");
  EXPECT_EQ(cache.find(pods(), "n/a"), nullptr);
  EXPECT_THAT(cache.owned(pods(), "job"), SizeIs(1));
}

nlohmann::json pod_at(const std::string& version, const std::string& name, const std::string& uid = "1") {
  auto made = pod(name, uid, "job");
  made["metadata"]["resourceVersion"] = version;
  return made;
}

TEST(Cache, AnAnswerThatArrivesAfterLaterEventsHasNoEffect) {
  Cache cache;
  cache.apply(pods(), {Change::added, pod_at("5", "a"), "5"});
  cache.apply(pods(), {Change::deleted, pod_at("8", "a"), "8"});
  cache.put(pods(), pod_at("7", "a"));  // the answer of the DELETE: it is being deleted
  EXPECT_EQ(cache.find(pods(), "n/a"), nullptr);
  cache.put(pods(), pod_at("9", "a", "2"));
  cache.apply(pods(), {Change::bookmark, {}, "20"});
  cache.put(pods(), pod_at("10", "b"));  // it was deleted before the bookmark, or its labels are others
  EXPECT_THAT(cache.all(pods()), SizeIs(1));
}

TEST(Cache, AnEventOrAListThatArrivesAfterALaterAnswerHasNoEffect) {
  Cache cache;
  cache.apply(pods(), {Change::added, pod_at("5", "a"), "5"});
  cache.put(pods(), pod_at("9", "a"));
  cache.apply(pods(), {Change::modified, pod_at("7", "a"), "7"});
  EXPECT_EQ(version_of(*cache.find(pods(), "n/a")), "9");
  cache.put(pods(), pod_at("12", "b"));
  cache.replace_all(pods(), {pod_at("9", "a")}, "11");
  EXPECT_THAT(cache.all(pods()), SizeIs(2));
  cache.replace_all(pods(), {}, "13");
  EXPECT_THAT(cache.all(pods()), SizeIs(0));
  cache.put(pods(), pod_at("14", "a"));
  cache.replace_all(pods(), {}, "3");  // a server that was restored from a copy
  EXPECT_THAT(cache.all(pods()), SizeIs(0));
  cache.put(pods(), pod_at("4", "a"));
  EXPECT_THAT(cache.all(pods()), SizeIs(1));
}

TEST(Cache, SecretsAreNotKept) {
  Cache cache;
  auto secret = pod("s", "1", "job");
  secret["data"] = {{"key", "c2VjcmV0"}};
  cache.put(secrets(), secret);
  EXPECT_FALSE(cache.find(secrets(), "n/s")->contains("data"));
}

TEST(Metrics, TextForPrometheus) {
  Metrics metrics;
  metrics.count_request("GET", Outcome::done);
  metrics.count_request("GET", Outcome::done);
  metrics.count_watch("pods");
  const auto text = metrics.text({{"lockstep_operator_jobs{phase=\"Running\"}", 3}});
  EXPECT_THAT(text, HasSubstr("lockstep_operator_requests_total{method=\"GET\",outcome=\"done\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("lockstep_operator_watches_total{kind=\"pods\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("# TYPE lockstep_operator_jobs gauge\nlockstep_operator_jobs{phase=\"Running\"} 3\n"));
}

}  // namespace
}  // namespace lockstep::kube
