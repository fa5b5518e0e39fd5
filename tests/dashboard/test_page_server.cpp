// A real server of a live page with real sockets: who is let in, what is sent, and who is dropped.
#include <lockstep/base/error.h>
#include <lockstep/base/status_page.h>
#include <lockstep/base/temporary_folder.h>
#include <lockstep/dashboard/page.h>
#include <lockstep/dashboard/server.h>

#include "base/expect_error.h"
#include "dashboard/browsers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <nlohmann/json.hpp>

namespace lockstep::dashboard {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using test::Answer;
using test::Browser;
using test::expect_error;
using test::get;
using test::request;
using testing::AllOf;
using testing::HasSubstr;

/// Requests to kill, on the server's thread.
class Kills {
 public:
  std::function<void(const KillRequest&)> taker() {
    return [this](const KillRequest& request) {
      const std::lock_guard lock(mutex_);
      waiting_.push_back(request);
      changed_.notify_all();
    };
  }
  KillRequest wait() {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, 120s, [&] { return !waiting_.empty(); }));
    const auto first = waiting_.at(0);
    waiting_.pop_front();
    return first;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<KillRequest> waiting_;
};

class Pages : public testing::Test {
 protected:
  Pages() : status_(StatusPage::open({{"LOCKSTEP_STATUS_FILE", file()}})) {}

  PageServer& start(PageServerOptions options = {}) {
    server_ = std::make_unique<PageServer>(std::move(options), JobDescription{.name = "run-1",
                                                                              .program = "train",
                                                                              .version = "1.0",
                                                                              .host = "a",
                                                                              .started = 1000,
                                                                              .world = 2,
                                                                              .notes = {"a note"}});
    return *server_;
  }
  PageServer& server() { return *server_; }
  std::string file() const { return (folder_.path() / "status").string(); }

  std::uint16_t port() const {
    const auto& address = server_->address();
    EXPECT_THAT(address, testing::StartsWith("http://127.0.0.1:"));
    return static_cast<std::uint16_t>(std::stoi(address.substr(17)));
  }
  std::string token() const { return server_->address().substr(server_->address().find("token=") + 6); }
  std::string target(const std::string& path) const { return path + "?token=" + token(); }
  Browser open() const { return {port(), target("/v1/view")}; }

  /// Two ranks: this process, with a status page, and another.
  JobReport report(const std::vector<std::string>& lines = {}) {
    JobReport report;
    report.world = 2;
    RankProcess one;
    one.pid = ::getpid();
    one.status_file = file();
    if (!lines.empty()) one.lines = lines;
    RankProcess other;
    other.rank = 1;
    other.pid = 1;
    report.ranks = {one, other};
    return report;
  }

  /// The next message of a type.
  static json next(Browser& browser, const std::string& type) {
    for (;;) {
      const auto text = browser.receive();
      if (text.empty()) {
        ADD_FAILURE() << "the connection ended before a message " << type;
        return {};
      }
      auto message = json::parse(text);
      if (message["type"] == type) return message;
    }
  }

  StatusPage& status() { return status_; }

 private:
  TemporaryFolder folder_;
  StatusPage status_;
  std::unique_ptr<PageServer> server_;
};

TEST_F(Pages, GivesThePageWithItsPolicyToWhoeverHasTheToken) {
  start();
  const Answer answer = get(port(), target("/"));
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.body, live_page());
  EXPECT_THAT(answer.head,
              AllOf(HasSubstr("Content-Security-Policy: " + content_security_policy()),
                    HasSubstr("Referrer-Policy: no-referrer"), HasSubstr("X-Content-Type-Options: nosniff"),
                    HasSubstr("Cache-Control: no-store"), HasSubstr("text/html; charset=utf-8")));
  EXPECT_EQ(get(port(), target("/other")).status, 404);
  EXPECT_EQ(get(port(), target("/v1/view")).status, 400) << "no WebSocket is wanted";
  EXPECT_EQ(request(port(), "POST", target("/")).status, 405);
}

TEST_F(Pages, SaysNothingWithoutTheToken) {
  start();
  const auto wrong = token().substr(1) + (token().back() == '0' ? '1' : '0');
  const auto expect_nothing = [&](const std::string& method, const std::string& target) {
    const Answer answer = request(port(), method, target);
    EXPECT_EQ(answer.status, 403) << method << " " << target;
    EXPECT_EQ(answer.body, "");
  };
  for (const std::string path : {"/", "/v1/view", "/v1/status", "/dashboard.html", "/../x"}) {
    expect_nothing("GET", path + "?token=" + wrong);
    EXPECT_EQ(Browser(port(), path + "?token=" + wrong).status(), 403) << path;
  }
  for (const std::string& query : {std::string(), std::string("?"), std::string("?token="),
                                   "?token=" + token().substr(1), "?token=" + token() + "0", "?token=" + token() + "&",
                                   "?a=1&token=" + token(), "?TOKEN=" + token(), "?token=%00" + token()}) {
    expect_nothing("GET", "/" + query);
  }
  for (const std::string method : {"POST", "HEAD", "OPTIONS"}) expect_nothing(method, "/");
}

TEST_F(Pages, EachJobHasATokenOfItsOwn) {
  const auto first = start().address();
  const auto token_of_first = token();
  EXPECT_EQ(token_of_first.size(), 32U);
  start();
  EXPECT_NE(token(), token_of_first);
}

TEST_F(Pages, SendsTheWholeJobAndThenWhatChanges) {
  start();
  Browser early = open();
  EXPECT_EQ(early.status(), 101);
  const auto before = next(early, "job");
  EXPECT_EQ(before["job"]["state"], "starting");
  EXPECT_EQ(before["job"]["notes"], json({"a note"}));
  EXPECT_EQ(before["job"]["can_kill"], false);

  server().report(report());
  EXPECT_EQ(next(early, "job")["ranks"].size(), 2U) << "ranks came";
  status().complete_step(7);
  server().report(report());
  const auto update = next(early, "update");
  EXPECT_EQ(update["ranks"].size(), 1U);
  EXPECT_EQ(update["ranks"][0]["step"], 7);
  EXPECT_GT(update["ranks"][0]["memory"], 100'000);
  EXPECT_EQ(update["progress"]["step"], 7);

  Browser late = open();
  EXPECT_EQ(next(late, "job")["ranks"][0]["step"], 7);
}

TEST_F(Pages, SendsTheLinesOfTheRankThatAPageShows) {
  start();
  server().report(report({"one"}));
  Browser browser = open();
  browser.send(R"({"type":"lines","rank":0})");
  EXPECT_EQ(next(browser, "lines")["lines"], json({"one"}));
  server().report(report());  // the same lines
  server().report(report({"one", "two"}));
  EXPECT_EQ(next(browser, "lines")["lines"], json({"one", "two"}));
  browser.send(R"({"type":"lines","rank":null})");
  browser.send(R"({"type":"kill","rank":0})");
  next(browser, "answer");  // the server has read both
  server().report(report({"three"}));
  status().complete_step(1);
  server().report(report());
  const auto message = json::parse(browser.receive());
  EXPECT_EQ(message["type"], "update");
  EXPECT_EQ(json::parse(browser.receive())["type"], "update");
}

TEST_F(Pages, KillsNobodyUnlessThatIsAllowed) {
  start();
  server().report(report());
  Browser browser = open();
  browser.send(R"({"type":"kill","rank":0})");
  const auto answer = next(browser, "answer");
  EXPECT_EQ(answer["ok"], false);
  EXPECT_THAT(answer["text"], HasSubstr("--dashboard-kill"));
}

TEST_F(Pages, PassesOnARequestToKillAndItsAnswer) {
  Kills kills;
  PageServerOptions options;
  options.kill = kills.taker();
  start(std::move(options));
  server().report(report());
  Browser browser = open();
  EXPECT_EQ(next(browser, "job")["job"]["can_kill"], true);
  browser.send(R"({"type":"kill","rank":5})");
  EXPECT_THAT(next(browser, "answer")["text"], HasSubstr("there is no rank 5"));
  browser.send(R"({"type":"kill","rank":1})");
  const auto request = kills.wait();
  EXPECT_EQ(request.rank, 1);
  EXPECT_EQ(request.pid, 1);
  server().answer(request, true, "rank 1 (pid 1) was sent SIGKILL");
  EXPECT_EQ(next(browser, "answer"), json::parse(R"({"type":"answer","to":"kill","rank":1,"ok":true,
                                                     "text":"rank 1 (pid 1) was sent SIGKILL"})"));
  auto ended = report();
  ended.ranks[1].state = ProcessState::failed;
  server().report(ended);
  next(browser, "update");
  browser.send(R"({"type":"kill","rank":1})");
  EXPECT_THAT(next(browser, "answer")["text"], HasSubstr("rank 1 has ended"));
}

TEST_F(Pages, DropsPagesThatSendAnythingElse) {
  start();
  server().report(report());
  Browser good = open();
  for (const std::string& text :
       {std::string("{}"), std::string("no json"), std::string(R"({"type":"exit","rank":0})"), std::string(257, ' '),
        std::string(60'000, '['), std::string(R"({"type":"lines","rank":-99999999999})"), std::string("\xff\xff")}) {
    Browser bad = open();
    bad.send(text);
    EXPECT_TRUE(bad.is_closed_in_the_end());
  }
  for (const std::string& bytes : {std::string(100, '\xff'), std::string("\x81\x05hello"), std::string(100, '\0')}) {
    Browser bad = open();
    bad.send_bytes(bytes);
    EXPECT_TRUE(bad.is_closed_in_the_end());
  }
  next(good, "job");
  status().complete_step(1);
  server().report(report());
  EXPECT_EQ(next(good, "update")["progress"]["step"], 1);
}

TEST_F(Pages, ShowsTheJobToFiftyBrowsers) {
  start();
  server().report(report());
  std::vector<Browser> browsers;
  browsers.reserve(50);
  for (int i = 0; i < 50; ++i) browsers.push_back(open());
  for (auto& browser : browsers) {
    EXPECT_EQ(browser.status(), 101);
    next(browser, "job");
  }
  status().complete_step(3);
  server().report(report());
  for (auto& browser : browsers) EXPECT_EQ(next(browser, "update")["progress"]["step"], 3);
}

TEST_F(Pages, RefusesMorePagesThanItCanServe) {
  start();
  std::vector<Browser> browsers;
  int refused = 0;
  for (int i = 0; i < 140; ++i) {
    browsers.push_back(open());
    if (browsers.back().status() == 503) {
      ++refused;
    } else {
      next(browsers.back(), "job");  // the server counts it from then on
    }
  }
  EXPECT_EQ(refused, 12);
  server().report(report());
  EXPECT_EQ(next(browsers.front(), "job")["ranks"].size(), 2U) << "those that are open stay";
}

// One that reads nothing, while the updates are large.
TEST_F(Pages, DropsABrowserThatDoesNotRead) {
  start();
  server().report(report({"x"}));
  Browser slow = open();
  slow.send(R"({"type":"lines","rank":0})");
  Browser good = open();
  next(good, "job");
  for (int i = 0; i < 400; ++i) {
    server().report(report(std::vector<std::string>(50, std::string(2000, static_cast<char>('a' + i % 20)))));
    next(good, "update");
  }
  EXPECT_TRUE(slow.is_closed_in_the_end());
  status().complete_step(1);
  server().report(report());
  EXPECT_EQ(next(good, "update")["progress"]["step"], 1);
}

TEST_F(Pages, TellsAllPagesOfTheEndAndCloses) {
  start();
  TrainingProgress training;
  training.work_dir = "/runs/a";
  status().report(training);
  server().report(report({"</script>"}));
  Browser browser = open();
  Browser silent = open();
  next(browser, "job");
  next(silent, "job");
  const auto old_port = port();
  const auto ended = server().end({1, "rank 1 failed first"});
  const auto update = next(browser, "update");
  EXPECT_EQ(update["job"]["state"], "ended");
  EXPECT_EQ(update["job"]["exit_code"], 1);
  EXPECT_EQ(browser.receive(), "");
  EXPECT_EQ(ended.work_dir, "/runs/a");
  EXPECT_THAT(ended.html, AllOf(HasSubstr("rank 1 failed first"), HasSubstr("\\u003c/script>")));
  EXPECT_TRUE(test::is_closed(old_port));
}

TEST_F(Pages, ABrowserThatDoesNotReadDoesNotHoldUpTheEnd) {
  start();
  server().report(report({"x"}));
  Browser slow = open();
  slow.send(R"({"type":"lines","rank":0})");
  for (int i = 0; i < 60; ++i) {
    server().report(report(std::vector<std::string>(50, std::string(5000, static_cast<char>('a' + i % 20)))));
  }
  EXPECT_THAT(server().end({0, "all ranks ended well"}).html, HasSubstr("all ranks ended well"));
}

TEST_F(Pages, NamesAPortThatIsInUse) {
  start();
  PageServerOptions options;
  options.address.port = port();
  expect_error(ErrorKind::io, {"[dashboard]", std::to_string(port()), "live page"},
               [&] { PageServer(options, JobDescription()); });
}

TEST_F(Pages, ARankWithoutAStatusPageHasARow) {
  start();
  auto alone = report();
  alone.ranks.front().status_file = "/no/such/file";
  alone.ranks.front().pid = 0;
  server().report(alone);
  Browser browser = open();
  const auto row = next(browser, "job")["ranks"][0];
  EXPECT_EQ(row["step"], nullptr);
  EXPECT_EQ(row["memory"], nullptr);
  EXPECT_EQ(row["state"], "starting");
}

}  // namespace
}  // namespace lockstep::dashboard
