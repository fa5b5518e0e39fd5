// The API client with a real API server.
#include <apps/operator/api/client.h>
#include <apps/operator/controller/leader.h>
#include <apps/operator/job/json.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <lockstep/base/crypto.h>
#include <lockstep/base/error.h>
#include <lockstep/base/temporary_folder.h>

#include <fstream>
#include <thread>

#include "operator/job_driver.h"
#include "operator/kube_server.h"

namespace lockstep::kube {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using test::KubeServer;
using testing::AllOf;
using testing::HasSubstr;
using testing::SizeIs;

class ApiServer : public testing::Test {
 protected:
  void SetUp() override {
    if (const auto why = KubeServer::obstacle()) GTEST_SKIP() << *why;
    space_ = KubeServer::get().new_space();
    client_.emplace(KubeServer::get().client());
  }
  json map(const std::string& name) {
    return {{"metadata", {{"name", name}, {"labels", {{"l", "x"}}}}}, {"data", {{"k", "1"}}}};
  }
  std::string maps() const { return path_of(config_maps(), space_); }
  std::string map_path(const std::string& name) const { return path_of(config_maps(), space_, name); }

  std::string space_;
  std::optional<ApiClient> client_;
};

TEST_F(ApiServer, ObjectsFromTheirCreationToTheirEnd) {
  const auto made = client_->create(maps(), map("a"));
  ASSERT_TRUE(made.ok()) << made.text();
  EXPECT_EQ(client_->create(maps(), map("a")).outcome, Outcome::exists);
  EXPECT_EQ(client_->get(map_path("a")).object["data"]["k"], "1");
  EXPECT_EQ(client_->get(map_path("b")).outcome, Outcome::missing);

  auto changed = made.object;
  changed["data"]["k"] = "2";
  EXPECT_TRUE(client_->replace(map_path("a"), changed).ok());
  EXPECT_EQ(client_->replace(map_path("a"), changed).outcome, Outcome::conflict);  // of an old version
  EXPECT_EQ(client_->patch(map_path("a"), {{"data", {{"k", "3"}}}}).object["data"]["k"], "3");

  EXPECT_EQ(client_->remove(map_path("a"), {.uid = "another", .grace_seconds = {}}).outcome, Outcome::conflict);
  EXPECT_TRUE(client_->remove(map_path("a"), {.uid = uid_of(made.object), .grace_seconds = {}}).ok());
  EXPECT_EQ(client_->remove(map_path("a"), {}).outcome, Outcome::missing);
}

TEST_F(ApiServer, WhatIsWrongIsSaid) {
  auto bad = map("Not A Name");
  const auto refused = client_->create(maps(), bad);
  EXPECT_EQ(refused.outcome, Outcome::invalid);
  EXPECT_THAT(refused.text(), HasSubstr("422 Invalid"));
  EXPECT_EQ(client_->get("/apis/no.such.group/v1/things").outcome, Outcome::missing);
  auto nobody = KubeServer::get().access();
  nobody.token = KubeServer::get().variable("KUBE_NOBODY");
  EXPECT_EQ(ApiClient(nobody).get(maps()).outcome, Outcome::forbidden);
  nobody.token = "wrong";
  EXPECT_EQ(ApiClient(nobody).get(maps()).outcome, Outcome::unauthorized);
}

TEST_F(ApiServer, AClientCertificateIsAsGoodAsAToken) {
  const auto access = find_access(KubeServer::get().certificate_kubeconfig().string(), "", {});
  EXPECT_TRUE(ApiClient(access).get(maps()).ok());
}

TEST_F(ApiServer, AnotherAuthorityIsNotTrusted) {
  TemporaryFolder folder;
  const auto file = folder.path() / "config";
  std::ofstream(file) << "current-context: c\ncontexts: [{name: c, context: {cluster: k, user: u}}]\nusers: [{name: u, "
                         "user: {token: t}}]\n"
                      << "clusters: [{name: k, cluster: {server: '" << KubeServer::get().variable("KUBE_SERVER")
                      << "'}}]\n";
  const auto answer = ApiClient(find_access(file.string(), "", {})).get("/api");
  EXPECT_EQ(answer.outcome, Outcome::lost);
  EXPECT_THAT(answer.text(), HasSubstr("certificate"));
}

TEST_F(ApiServer, ATokenThatRotatesIsReadAgain) {
  TemporaryFolder folder;
  auto access = KubeServer::get().access();
  access.token.clear();
  access.token_file = folder.path() / "token";
  std::ofstream(access.token_file) << "old\n";
  ApiClient client(access);
  EXPECT_EQ(client.get(maps()).outcome, Outcome::unauthorized);
  std::ofstream(access.token_file) << KubeServer::get().variable("KUBE_TOKEN") << "\n";
  EXPECT_TRUE(client.get(maps()).ok());
}

TEST_F(ApiServer, ListsComeInPages) {
  for (int i = 0; i < 7; ++i) client_->create(maps(), map(fmt::format("m{}", i)));
  const auto listed = client_->list(maps(), "l=x", 2);
  EXPECT_THAT(listed.items, SizeIs(7));
  EXPECT_FALSE(listed.version.empty());
  EXPECT_THAT(client_->list(maps(), "l=y").items, SizeIs(0));
}

TEST_F(ApiServer, AWatchTellsOfChangesAndGoesOnFromItsEnd) {
  const auto begin = client_->list(maps(), "l=x").version;
  std::vector<std::string> seen;
  const auto take = [&](const WatchEvent& event) {
    if (event.change != Change::bookmark)
      seen.push_back(name_of(event.object) + std::to_string(static_cast<int>(event.change)));
  };
  client_->create(maps(), map("a"));
  client_->remove(map_path("a"), {});
  const auto end = client_->watch(maps(), "l=x", begin, 1s, take);
  EXPECT_EQ(seen, (std::vector<std::string>{"a0", "a2"}));
  EXPECT_FALSE(end.why);
  EXPECT_TRUE(end.trouble.empty()) << end.trouble;
  EXPECT_NE(end.version, begin);
  seen.clear();
  client_->create(maps(), map("b"));
  client_->watch(maps(), "l=x", end.version, 1s, take);
  EXPECT_EQ(seen, (std::vector<std::string>{"b0"}));
}

TEST_F(ApiServer, AVersionThatIsTooOldMeansToListAgain) {
  const auto begin = client_->list(maps(), "l=x").version;
  for (int i = 0; i < 3; ++i) client_->create(maps(), map(fmt::format("m{}", i)));
  KubeServer::get().take_away();  // with it goes its cache of events
  const auto away = client_->get(maps());
  EXPECT_EQ(away.outcome, Outcome::lost);
  EXPECT_THAT(away.text(), HasSubstr(client_->server()));
  KubeServer::get().bring_back();
  const auto end = client_->watch(maps(), "l=x", begin, 2s, [](const WatchEvent&) {});
  // The version may be served from etcd, unless it was compacted.
  if (end.why) {
    EXPECT_EQ(end.why->outcome, Outcome::expired);
  }
  const auto ancient = client_->watch(maps(), "l=x", "1", 2s, [](const WatchEvent&) {});
  ASSERT_TRUE(ancient.why);
  EXPECT_EQ(ancient.why->outcome, Outcome::expired);
  EXPECT_TRUE(ancient.version.empty());
}

TEST_F(ApiServer, ARequestCanBeCancelled) {
  const auto version = client_->list(maps()).version;
  std::jthread canceller([&] {
    std::this_thread::sleep_for(200ms);
    client_->cancel();
  });
  const auto end = client_->watch(maps(), "", version, 600s, [](const WatchEvent&) {});
  EXPECT_FALSE(end.trouble.empty());
  EXPECT_EQ(client_->get(maps()).outcome, Outcome::lost);
}

TEST_F(ApiServer, ALeaseHasOneHolder) {
  auto other_client = KubeServer::get().client();
  LeaseOptions options;
  options.space = space_;
  options.duration = 600ms;
  options.renew_deadline = 400ms;
  options.identity = "one";
  LeaseHolder one(*client_, options);
  options.identity = "two";
  LeaseHolder two(other_client, options);
  EXPECT_TRUE(one.try_once());
  EXPECT_FALSE(two.try_once());
  EXPECT_EQ(two.other(), "one");
  std::this_thread::sleep_for(400ms);
  EXPECT_TRUE(one.try_once());  // renewed
  std::this_thread::sleep_for(400ms);
  EXPECT_FALSE(two.try_once());  // it has seen the record change
  std::this_thread::sleep_for(700ms);
  EXPECT_TRUE(two.try_once()) << two.trouble();
  EXPECT_FALSE(one.try_once());
  EXPECT_TRUE(one.lost());
  two.release();
  options.identity = "three";
  LeaseHolder three(*client_, options);
  EXPECT_TRUE(three.try_once());  // at once
}

TEST_F(ApiServer, TheDefinitionOfJobsHasDefaultsAndLimits) {
  auto& server = KubeServer::get();
  auto job = test::simple_job("a", 2);
  const auto path = path_of(lockstep_jobs(), space_);
  job["spec"]["replicaSpecs"]["Worker"].erase("replicas");
  const auto made = client_->create(path, job);
  ASSERT_TRUE(made.ok()) << made.text();
  EXPECT_EQ(made.object["spec"]["replicaSpecs"]["Worker"]["replicas"], 1);
  EXPECT_EQ(made.object["spec"]["replicaSpecs"]["Worker"]["restartPolicy"], "OnFailure");
  auto bad = job;
  bad["metadata"]["name"] = "b";
  bad["spec"]["mode"] = "Sheduler";
  EXPECT_EQ(client_->create(path, bad).outcome, Outcome::invalid);
  bad["spec"].erase("mode");
  bad["spec"]["runPolicy"] = {{"backoffLimit", -1}};
  EXPECT_EQ(client_->create(path, bad).outcome, Outcome::invalid);
  EXPECT_THAT(server.kubectl({"explain", "lockstepjob.spec.runPolicy.backoffLimit"}).out,
              AllOf(HasSubstr("Restarts of the job"), HasSubstr("integer")));
  EXPECT_THAT(server.kubectl({"get", "lsj", "-n", space_}).out,
              AllOf(HasSubstr("STATE"), HasSubstr("RESTARTS"), HasSubstr("a ")));
}

}  // namespace
}  // namespace lockstep::kube
