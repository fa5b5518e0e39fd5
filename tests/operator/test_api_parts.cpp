// The parts of the API client that need no server.
#include <apps/operator/api/access.h>
#include <apps/operator/api/answer.h>
#include <apps/operator/api/client.h>
#include <apps/operator/api/resource.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <lockstep/base/crypto.h>
#include <lockstep/base/error.h>
#include <lockstep/base/temporary_folder.h>

#include <fstream>

namespace lockstep::kube {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;

TEST(Answer, EachStatusSaysWhatCanBeDone) {
  const auto outcome = [](unsigned code, const std::string& body) { return judge({code, body, true, {}}).outcome; };
  EXPECT_EQ(outcome(201, "{}"), Outcome::done);
  EXPECT_EQ(outcome(401, R"({"reason":"Unauthorized"})"), Outcome::unauthorized);
  EXPECT_EQ(outcome(403, R"({"reason":"Forbidden"})"), Outcome::forbidden);
  EXPECT_EQ(outcome(404, "404 page not found"), Outcome::missing);
  EXPECT_EQ(outcome(409, R"({"reason":"AlreadyExists"})"), Outcome::exists);
  EXPECT_EQ(outcome(409, R"({"reason":"Conflict"})"), Outcome::conflict);
  EXPECT_EQ(outcome(410, R"({"reason":"Expired"})"), Outcome::expired);
  EXPECT_EQ(outcome(422, R"({"reason":"Invalid"})"), Outcome::invalid);
  EXPECT_EQ(outcome(429, "slow down"), Outcome::later);
  EXPECT_EQ(outcome(500, R"({"message":"etcdserver: leader changed"})"), Outcome::later);
  EXPECT_EQ(outcome(500, R"({"message":"etcdserver: request is too large"})"), Outcome::invalid);
  EXPECT_EQ(outcome(200, "<html>a proxy</html>"), Outcome::later);
}

TEST(Answer, RetryAfterComesFromTheHeaderOrTheStatus) {
  EXPECT_EQ(judge({429, "{}", true, 7s}).retry_after, 7s);
  EXPECT_EQ(judge({504, R"({"details":{"retryAfterSeconds":3}})", true, {}}).retry_after, 3s);
  EXPECT_FALSE(judge({504, R"({"details":{"retryAfterSeconds":-3}})", true, {}}).retry_after);
}

TEST(WatchLines, LinesAreSplitAnywhere) {
  const std::string text =
      "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"a\",\"resourceVersion\":\"5\"}}}\n"
      "{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{\"resourceVersion\":\"9\"}}}\n";
  for (std::size_t cut = 0; cut <= text.size(); ++cut) {
    WatchLines lines;
    auto events = lines.take(text.substr(0, cut));
    for (auto& event : lines.take(text.substr(cut))) events.push_back(std::move(event));
    ASSERT_EQ(events.size(), 2U) << cut;
    EXPECT_EQ(events[0].change, Change::added);
    EXPECT_EQ(events[0].version, "5");
    EXPECT_EQ(events[1].change, Change::bookmark);
    EXPECT_EQ(events[1].version, "9");
  }
}

TEST(WatchLines, AnErrorEndsThem) {
  WatchLines lines;
  const auto events = lines.take(
      "{\"type\":\"ERROR\",\"object\":{\"code\":410,\"reason\":\"Expired\"}}\n{\"type\":\"ADDED\",\"object\":{}}\n");
  EXPECT_TRUE(events.empty());
  ASSERT_TRUE(lines.error());
  EXPECT_EQ(lines.error()->outcome, Outcome::expired);
}

TEST(WatchLines, WhatIsNoEventIsRefused) {
  for (const char* line : {"nonsense\n", "[]\n", "{\"type\":\"ADDED\"}\n", "{\"type\":\"ADDED\",\"object\":{}}\n"}) {
    WatchLines lines;
    EXPECT_THROW(lines.take(line), Error) << line;
  }
  WatchLines endless;
  EXPECT_THROW(endless.take(std::string((4 << 20) + 1, 'x')), Error);
}

TEST(RateLimit, ABurstThenATurnEach) {
  const auto now = RateLimit::Clock::now() + 1s;
  RateLimit limit(10, 2);
  EXPECT_EQ(limit.take(now), 0s);
  EXPECT_EQ(limit.take(now), 0s);
  EXPECT_EQ(limit.take(now), 100ms);
  EXPECT_EQ(limit.take(now), 200ms);
  EXPECT_EQ(limit.take(now + 300ms), 0s);
}

TEST(Resource, Paths) {
  EXPECT_EQ(path_of(pods(), ""), "/api/v1/pods");
  EXPECT_EQ(path_of(pods(), "a", "b", "status"), "/api/v1/namespaces/a/pods/b/status");
  EXPECT_EQ(path_of(lockstep_jobs(), "a", "b"), "/apis/lockstep.dev/v1alpha1/namespaces/a/lockstepjobs/b");
  EXPECT_EQ(escape_query("a/b=c d"), "a%2Fb%3Dc%20d");
}

class Kubeconfig : public testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& text) {
    const auto path = folder_.path() / name;
    std::ofstream(path) << text;
    return path.string();
  }
  static std::string message_of(const std::string& paths) {
    try {
      find_access(paths, "", {});
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::config);
      return error.what();
    }
    return "";
  }
  std::string with_user(const std::string& user) {
    return write("config",
                 "current-context: c\ncontexts: [{name: c, context: {cluster: k, user: u, namespace: team}}]\n"
                 "clusters: [{name: k, cluster: {server: 'http://10.0.0.1:8080/proxy/'}}]\nusers: [{name: u, user: " +
                     user + "}]\n");
  }

  TemporaryFolder folder_;
};

TEST_F(Kubeconfig, AddressNamespaceAndToken) {
  const auto access = find_access(with_user("{token: secret}"), "", {});
  EXPECT_EQ(access.server.text(), "10.0.0.1:8080");
  EXPECT_EQ(access.base_path, "/proxy");
  EXPECT_EQ(access.space, "team");
  EXPECT_EQ(access.token, "secret");
  EXPECT_EQ(access.warnings.size(), 1U);  // plain HTTP
}

TEST_F(Kubeconfig, ATokenFileIsRelativeToTheFile) {
  write("token", "abc\n");
  EXPECT_EQ(find_access(with_user("{tokenFile: token}"), "", {}).token_file, folder_.path() / "token");
  EXPECT_THAT(message_of(with_user("{tokenFile: nowhere}")), HasSubstr("nowhere"));
}

TEST_F(Kubeconfig, ProgramsForCredentialsAreRefusedWithTheFix) {
  EXPECT_THAT(message_of(with_user("{exec: {command: aws}}")),
              AllOf(HasSubstr("'aws' (exec)"), HasSubstr("client certificate"), HasSubstr("config:")));
  EXPECT_THAT(message_of(with_user("{auth-provider: {name: gcp}}")), HasSubstr("auth-provider"));
}

TEST_F(Kubeconfig, SeveralFilesAreOne) {
  const auto first = write("a", "contexts: [{name: c, context: {cluster: k, user: u}}]\n");
  const auto second =
      write("b",
            "current-context: c\nclusters: [{name: k, cluster: {server: 'http://host'}}]\nusers: [{name: u, "
            "user: {token: t}}]\n");
  const auto access = find_access("", "", {{"KUBECONFIG", first + ":" + second}});
  EXPECT_EQ(access.server.text(), "host:80");
  EXPECT_EQ(access.token, "t");
}

TEST_F(Kubeconfig, WhatIsMissingIsNamed) {
  EXPECT_THAT(message_of(write("x", "clusters: []\n")), HasSubstr("no current-context"));
  EXPECT_THAT(message_of(write("y", "current-context: c\ncontexts: [{name: c, context: {cluster: k}}]\n")),
              HasSubstr("no cluster 'k'"));
  EXPECT_THAT(message_of(folder_.path() / "nothing"), HasSubstr("nothing"));
}

TEST_F(Kubeconfig, ServiceAccountOfAPod) {
  write("token", "abc\n");
  write("namespace", "team\n");
  EXPECT_THROW(access_in_cluster({{"KUBERNETES_SERVICE_HOST", "10.96.0.1"}}, folder_.path()), Error);  // no ca.crt
}

}  // namespace
}  // namespace lockstep::kube
