// A real scheduler, real workers and real sockets, in one process.
#include "base/expect_error.h"
#include "membership/running_server.h"
#include "support/raw_server.h"
#include "support/read_file.h"

#include <lockstep/base/temporary_folder.h>
#include <lockstep/membership/service/status.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/ssl/context.hpp>
#include <condition_variable>
#include <future>
#include <mutex>
#include <nlohmann/json.hpp>

namespace lockstep::membership {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using test::expect_error;
using test::get;
using test::LogLines;
using test::RawPeer;
using test::RawServer;
using test::RunningServer;
using test::server_of;
using test::start_workers;
using test::worker_of;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

json status_of(std::uint16_t port) { return json::parse(fetch_status("127.0.0.1", port, nullptr)); }

/// Asks until the status is so, for a while.
template <typename Condition>
json status_when(std::uint16_t port, Condition condition) {
  const auto deadline = std::chrono::steady_clock::now() + 60s;
  for (;;) {
    json status = status_of(port);
    if (condition(status) || std::chrono::steady_clock::now() > deadline) return status;
    std::this_thread::sleep_for(10ms);
  }
}

TEST(Scheduler, GivesItsWorkersRanksAndEndsWithThem) {
  const LogLines log;
  RunningServer server(server_of(3));
  auto sessions =
      start_workers({worker_of(server.port(), "w2"), worker_of(server.port(), "w0"), worker_of(server.port(), "w1")});
  EXPECT_EQ(sessions[0]->place().rank, 2);
  EXPECT_EQ(sessions[1]->place().rank, 0);
  EXPECT_EQ(sessions[2]->place().rank, 1);
  EXPECT_EQ(sessions[0]->place().local_rank, 2);
  EXPECT_EQ(sessions[0]->place().local_size, 3);
  EXPECT_EQ(sessions[0]->place().store_key, sessions[1]->place().store_key);
  EXPECT_EQ(sessions[1]->own_address(), "127.0.0.1");

  sessions[1]->publish_store("10.9.8.7", 4711);
  for (const auto& session : sessions) {
    const auto store = session->await_store(std::chrono::steady_clock::now() + 60s);
    EXPECT_EQ(store.host, "10.9.8.7");
    EXPECT_EQ(store.port, 4711);
  }
  for (const auto& session : sessions) session->completed_step(7, StepTime{57ms, 6ms});
  const auto status = status_when(server.port(), [](const json& s) {
    return std::all_of(s["workers"].begin(), s["workers"].end(), [](const json& each) { return each["step"] == 7; });
  });
  EXPECT_EQ(status["step"], 7);
  EXPECT_EQ(status["state"], "CLUSTER_READY");
  EXPECT_EQ(status["workers"][2]["node_id"], "w2");
  EXPECT_EQ(status["workers"][2]["step"], 7);
  EXPECT_EQ(status["workers"][2]["step_ms"], 57.0);
  EXPECT_EQ(status["workers"][2]["own_ms"], 6.0);
  EXPECT_EQ(status["workers"][2]["restarts"], 0);

  sessions.clear();
  EXPECT_TRUE(server.wait().ok);
  EXPECT_THAT(log.with("'w1' (rank 1"), Not(HasSubstr("is lost")));
}

TEST(Scheduler, WorkersNeedNoNames) {
  RunningServer server(server_of(2));
  auto sessions = start_workers({worker_of(server.port(), ""), worker_of(server.port(), "")});
  EXPECT_NE(sessions[0]->place().rank, sessions[1]->place().rank);
  sessions.clear();
  EXPECT_TRUE(server.wait().ok);
}

TEST(Scheduler, WorkersMayComeFirst) {
  std::promise<void> tried;
  std::once_flag once;
  // It takes the worker's connection and closes it: nobody is there who knows the protocol.
  auto nobody = std::make_unique<RawServer>([&](int) { std::call_once(once, [&] { tried.set_value(); }); });
  auto options = server_of(1);
  options.port = nobody->port();
  auto worker =
      std::async(std::launch::async, [&] { return std::make_unique<WorkerSession>(worker_of(options.port, "early")); });
  ASSERT_EQ(tried.get_future().wait_for(60s), std::future_status::ready);
  nobody.reset();
  RunningServer server(options);
  worker.get().reset();
  EXPECT_TRUE(server.wait().ok);
}

TEST(Scheduler, AWorkerThatWaitsInVainSaysForWhat) {
  RunningServer server(server_of(2));
  auto alone = worker_of(server.port(), "alone");
  alone.start_timeout = 2s;
  expect_error(ErrorKind::timeout, {"waited 2.0 s for the other workers, 1 of 2 have registered", "MS_WORKER_NUM"},
               [&] { const WorkerSession session(alone); });
  std::uint16_t nobody = 0;
  { nobody = RunningServer(server_of(1)).port(); }
  alone.port = nobody;
  expect_error(ErrorKind::timeout, {"the scheduler at 127.0.0.1:", "Connection refused"},
               [&] { const WorkerSession session(alone); });
}

TEST(Scheduler, AWorkerThatWaitsForTheStoreSaysHowLongItDid) {
  RunningServer server(server_of(2));
  auto first = worker_of(server.port(), "w0");
  auto second = worker_of(server.port(), "w1");
  second.start_timeout = 300s;
  const auto sessions = start_workers({first, second});
  try {
    sessions[1]->await_store(std::chrono::steady_clock::now() + 1s);
    FAIL() << "nobody opened a store";
  } catch (const Error& error) {
    EXPECT_THAT(error.message(), AllOf(HasSubstr("waited "), HasSubstr("for rank 0 to open the store"),
                                       testing::Not(HasSubstr("300.0 s"))));
  }
}

TEST(Scheduler, RefusesANodeIdThatIsTaken) {
  const LogLines log;
  RunningServer server(server_of(2));
  auto sessions = start_workers({worker_of(server.port(), "w0"), worker_of(server.port(), "w1")});
  expect_error(ErrorKind::environment, {"the node id 'w0' is that of worker 'w0' (rank 0,", "its own MS_NODE_ID"},
               [&] { const WorkerSession session(worker_of(server.port(), "w0")); });
  expect_error(ErrorKind::environment, {"there are enough workers: 2 of 2 (MS_WORKER_NUM)"},
               [&] { const WorkerSession session(worker_of(server.port(), "w2")); });
  EXPECT_THAT(log.with("refused worker 'w2' at 127.0.0.1:"), HasSubstr("refused worker 'w0' at 127.0.0.1:"));
  EXPECT_EQ(status_of(server.port())["present"], 2);
}

TEST(Scheduler, TellsTheOthersWhoFailed) {
  const LogLines log;
  RunningServer server(server_of(2));
  auto sessions = start_workers({worker_of(server.port(), "w0"), worker_of(server.port(), "w1")});
  sessions[1]->leave(false, "the loss is NaN");
  sessions[1].reset();
  log.with("the scheduler reports that worker 'w1' (rank 1) is lost: the loss is NaN");
  const auto status = status_of(server.port());
  EXPECT_EQ(status["workers"][1]["state"], "failed");
  EXPECT_EQ(status["workers"][1]["last_error"], "the loss is NaN");
  sessions.clear();
  const auto ending = server.wait();
  EXPECT_FALSE(ending.ok);
  EXPECT_THAT(ending.reason, HasSubstr("worker 'w1' (rank 1"));
}

TEST(Scheduler, ADeadWorkersPlaceIsFreeAtOnce) {
  auto options = server_of(2);
  options.recovery = true;
  RunningServer server(options);
  auto sessions = start_workers({worker_of(server.port(), "w0"), worker_of(server.port(), "w1")});
  sessions[1]->leave(false, "killed");
  sessions[1].reset();
  auto again =
      std::async(std::launch::async, [&] { return std::make_unique<WorkerSession>(worker_of(server.port(), "w1")); });
  status_when(server.port(), [](const json& s) { return s["restarts"] == 1; });
  sessions[0]->leave(false, "its peer was lost");
  sessions[0].reset();
  const WorkerSession first(worker_of(server.port(), "w0"));
  const auto second = again.get();
  EXPECT_EQ(second->place().rank, 1);
  EXPECT_EQ(second->place().generation, 2);
  EXPECT_EQ(status_of(server.port())["generation"], 2);
}

TEST(Scheduler, SurvivorsAndAReplacementMeetAgain) {
  auto options = server_of(2);
  options.recovery = true;
  RunningServer server(options);
  const auto recovering = [&](const std::string& id) {
    auto worker = worker_of(server.port(), id);
    worker.recovers = true;
    return worker;
  };
  auto sessions = start_workers({recovering("w0"), recovering("w1")});
  std::promise<std::string> broken;
  sessions[0]->on_broken([&](const std::string& why) { broken.set_value(why); });
  sessions[1]->leave(false, "its disk is full");
  EXPECT_THAT(broken.get_future().get(), HasSubstr("worker 'w1' (rank 1) is lost: its disk is full"));
  EXPECT_TRUE(sessions[0]->broken(1));
  sessions[0]->on_broken(nullptr);
  sessions[1].reset();

  sessions[0]->ask_again("w1 is lost");
  auto coming = std::async(std::launch::async, [&] { return std::make_unique<WorkerSession>(recovering("w1")); });
  ASSERT_TRUE(sessions[0]->await_next_place());
  EXPECT_EQ(sessions[0]->place().generation, 2);
  EXPECT_EQ(sessions[0]->place().rank, 0);
  EXPECT_EQ(sessions[0]->broken(2), std::nullopt);
  auto replacement = coming.get();
  EXPECT_EQ(replacement->place().rank, 1);
  EXPECT_EQ(replacement->place().store_key, sessions[0]->place().store_key);
  EXPECT_EQ(status_of(server.port())["restarts"], 1);

  replacement.reset();  // it is done, and so is the job
  sessions[0]->ask_again("w1 is gone");
  EXPECT_FALSE(sessions[0]->await_next_place());
  EXPECT_TRUE(server.wait().ok);
}

TEST(Scheduler, ASurvivorDoesNotWaitForeverForASchedulerThatIsGone) {
  auto options = server_of(2);
  options.recovery = true;
  auto server = std::make_optional<RunningServer>(options);
  auto workers = std::vector{worker_of(server->port(), "w0"), worker_of(server->port(), "w1")};
  for (auto& worker : workers) {
    worker.recovers = true;
    worker.start_timeout = 3s;
  }
  auto sessions = start_workers(workers);
  server.reset();
  sessions[0]->ask_again("w1 is lost");
  expect_error(ErrorKind::timeout, {"a rank is lost", "the scheduler at", "LOCKSTEP_START_TIMEOUT_S"},
               [&] { sessions[0]->await_next_place(); });
}

// Two of three are through the last operation of all; the third saw in it that the first was lost.
TEST(Scheduler, WhoAskedForTheNextGenerationBeforeTheJobWasCompleteIsDone) {
  auto options = server_of(3);
  options.recovery = true;
  RunningServer server(options);
  std::vector<WorkerSessionOptions> workers;
  for (const char* id : {"w0", "w1", "w2"}) {
    workers.push_back(worker_of(server.port(), id));
    workers.back().recovers = true;
  }
  auto sessions = start_workers(workers);
  sessions[0]->leave(false, "killed");
  sessions[0].reset();
  sessions[2]->ask_again("w0 is lost");
  status_when(server.port(), [](const json& s) { return s["workers"][2]["state"] == "waiting"; });
  auto late = std::async(std::launch::async, [&] { return std::make_unique<WorkerSession>(workers[0]); });
  status_when(server.port(), [](const json& s) { return s["restarts"] == 1; });
  sessions[1].reset();  // done
  EXPECT_FALSE(sessions[2]->await_next_place());
  EXPECT_THROW(late.get(), Error);
  EXPECT_TRUE(server.wait().ok);
}

TEST(SchedulerDeathTest, AWorkerThatHangsIsEndedWithItsStack) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  const auto hang = [] {
    auto options = server_of(2);
    options.recovery = true;
    options.limits.hang = 200ms;
    RunningServer server(options);
    std::vector<WorkerSessionOptions> workers = {worker_of(server.port(), "w0"), worker_of(server.port(), "w1")};
    for (auto& worker : workers) worker.recovers = true;
    auto coming = std::async(std::launch::async, [&] { return std::make_unique<WorkerSession>(workers[1]); });
    WorkerSession here(workers[0]);
    here.read_page_with([] {
      PageContent page;
      page.progress.step = 7;
      return page;
    });
    coming.get()->leave(false, "its disk is full");
    // And this thread does not look any more.
    std::this_thread::sleep_for(60s);
  };
  EXPECT_EXIT(hang(), testing::ExitedWithCode(1),
              "worker 'w0' .* hangs(.|\n)*another one takes its place; it had completed step 7; its stack is:");
}

TEST(Scheduler, WorkersReportTheirPagesWhereTheJobIsWatched) {
  auto options = server_of(2);
  std::mutex mutex;
  std::condition_variable looked;
  Membership last;
  options.on_look = [&](const Membership& membership, const auto&) {
    const std::lock_guard lock(mutex);
    last = membership;
    looked.notify_all();
  };
  const auto page_at = [](std::int64_t step) {
    PageContent page;
    page.training.metrics = {{"loss", step, 0.5}};
    return page;
  };
  const auto has_reported = [&](std::int64_t step) {
    const auto* member = find_member(last, "w0");
    return member != nullptr && member->page == page_at(step);
  };
  RunningServer server(options);
  auto sessions = start_workers({worker_of(server.port(), "w0"), worker_of(server.port(), "w1")});
  sessions[0]->read_page_with([&] { return page_at(7); });
  {
    std::unique_lock lock(mutex);
    ASSERT_TRUE(looked.wait_for(lock, 60s, [&] { return has_reported(7); }));
    EXPECT_GT(find_member(last, "w0")->memory.value_or(0), 1000);
  }
  // The last page before the end is reported, too, although the function is gone.
  sessions[0]->read_page_with([&] { return page_at(8); });
  sessions[0]->read_page_with(nullptr);
  for (auto& session : sessions) session.reset();
  EXPECT_TRUE(server.wait().ok);
  const std::lock_guard lock(mutex);
  EXPECT_TRUE(has_reported(8));
}

TEST(Scheduler, WorkersReportNoPagesToASchedulerThatShowsNothing) {
  RunningServer server(server_of(1));
  auto worker = worker_of(server.port(), "w0");
  worker.heartbeat = 10ms;
  auto sessions = start_workers({worker});
  std::atomic<int> calls{0};
  sessions[0]->read_page_with([&] {
    ++calls;
    return PageContent{};
  });
  std::this_thread::sleep_for(200ms);
  EXPECT_EQ(calls, 0);
}

TEST(Scheduler, SilentWorkersAreLost) {
  const LogLines log;
  auto options = server_of(1);
  options.limits.heartbeat_limit = 300ms;
  RunningServer server(options);
  auto mute = worker_of(server.port(), "mute");
  mute.heartbeat = 60s;
  auto sessions = start_workers({mute});
  EXPECT_THAT(log.with("is lost: it sent nothing"), HasSubstr("worker 'mute' (rank 0"));
  // It is alive, and has its place again as soon as it notices.
  status_when(server.port(), [](const json& s) { return s["present"] == 1; });
}

TEST(Scheduler, ANewSchedulerTakesItsWorkersBack) {
  const TemporaryFolder folder("lockstep-scheduler-state");
  auto options = server_of(2);
  options.recovery = true;
  options.state = state_in_file(folder.path() / "deep" / "scheduler.json");
  auto first = std::make_unique<RunningServer>(options);
  options.port = first->port();
  auto sessions = start_workers({worker_of(options.port, "w1"), worker_of(options.port, "w0")});
  const auto job = status_of(options.port)["job"];
  first.reset();
  RunningServer second(options);
  for (const auto& session : sessions) session->completed_step(3, std::nullopt);
  const auto status = status_when(options.port, [](const json& s) { return s["step"] == 3 && s["present"] == 2; });
  EXPECT_EQ(status["job"], job);
  EXPECT_EQ(status["state"], "CLUSTER_READY");
  EXPECT_EQ(status["generation"], 1);
  EXPECT_EQ(status["restarts"], 0);
  sessions.clear();
  EXPECT_TRUE(second.wait().ok);
}

TEST(Scheduler, AFinishedJobsStateIsNotGoneOnWith) {
  const TemporaryFolder folder("lockstep-scheduler-state");
  auto options = server_of(1);
  options.recovery = true;
  options.state = state_in_file(folder.path() / "scheduler.json");
  for (int job = 0; job < 2; ++job) {
    RunningServer server(options);
    start_workers({worker_of(server.port(), "w0")}).clear();
    EXPECT_TRUE(server.wait().ok);
  }
  options.workers = 2;
  options.state = state_in_file(folder.path() / "other.json");
  { RunningServer server(options); }
  options.workers = 3;
  expect_error(ErrorKind::data, {"other.json", "a job with 2 workers", "MS_RECOVERY_PATH"},
               [&] { Server server(options); });
}

TEST(Scheduler, AnotherJobsSchedulerIsNoneOfOurs) {
  const LogLines log;
  auto options = server_of(1);
  auto first = std::make_unique<RunningServer>(options);
  options.port = first->port();
  const auto sessions = start_workers({worker_of(options.port, "w0")});
  first.reset();
  const RunningServer second(options);
  EXPECT_THAT(log.with("training goes on without the scheduler"), HasSubstr("a job that this scheduler does not have"));
  EXPECT_EQ(status_of(options.port)["present"], 0);
}

TEST(Scheduler, ASecretKeepsStrangersOut) {
  const LogLines log;
  auto options = server_of(1);
  options.secret = "swordfish";
  RunningServer server(options);
  expect_error(ErrorKind::environment, {"does not have the secret", "LOCKSTEP_CLUSTER_SECRET_FILE"},
               [&] { const WorkerSession session(worker_of(server.port(), "w")); });
  auto wrong = worker_of(server.port(), "w");
  wrong.secret = "sword";
  expect_error(ErrorKind::environment, {"its secret is not that of this scheduler"},
               [&] { const WorkerSession session(wrong); });
  EXPECT_THAT(log.with("its secret is not that of this scheduler"), Not(HasSubstr("sword")));
  wrong.secret = "swordfish";
  start_workers({wrong}).clear();
  EXPECT_TRUE(server.wait().ok);

  RunningServer open(server_of(1));
  wrong.port = open.port();
  expect_error(ErrorKind::environment, {"the server at 127.0.0.1:", "does not have the secret"},
               [&] { const WorkerSession session(wrong); });
}

// ---- people, and strangers

TEST(SchedulerPort, AnswersCurl) {
  RunningServer server(server_of(2));
  const std::string answer = get(server.port(), "/v1/status");
  EXPECT_THAT(answer, AllOf(StartsWith("HTTP/1.1 200 OK\r\n"), HasSubstr("Content-Type: application/json\r\n")));
  const auto status = json::parse(answer.substr(answer.find("\r\n\r\n")));
  EXPECT_EQ(status["state"], "CLUSTER_STARTING");
  EXPECT_EQ(status["wanted"], 2);
  EXPECT_EQ(status["last_error"], nullptr);
  EXPECT_THAT(status_table(status.dump()), HasSubstr("CLUSTER_STARTING, generation 0, 0 of 2 workers, step -"));
  EXPECT_THAT(get(server.port(), "/"), AllOf(StartsWith("HTTP/1.1 404"), HasSubstr("GET /v1/status")));
}

TEST(SchedulerPort, RefusesWhatIsNoRequest) {
  const LogLines log;
  auto options = server_of(1);
  options.step = 3s;
  RunningServer server(options);
  const RawPeer silent(server.port());
  const RawPeer slow(server.port());
  slow.send("GET /v1/st");
  const RawPeer garbage(server.port());
  garbage.send("\x01\x02\x03 hello\r\n\r\n");
  const RawPeer greedy(server.port());
  greedy.send("GET /v1/status HTTP/1.1\r\nX: " + std::string(20'000, 'x'));
  for (const auto* peer : {&silent, &slow, &garbage, &greedy}) EXPECT_EQ(peer->read(), "");
  EXPECT_THAT(log.with("nothing was received in time"),
              AllOf(HasSubstr("nothing was received in time"), HasSubstr("bad method"),
                    HasSubstr("a request above the limit")));
}

TEST(SchedulerPort, RefusesABodyThatIsTooLong) {
  const LogLines log;
  RunningServer server(server_of(1));
  const RawPeer heavy(server.port());
  heavy.send("POST /v1/status HTTP/1.1\r\nContent-Length: 20000\r\n\r\n" + std::string(1000, 'x'));  // one segment
  EXPECT_EQ(heavy.read(), "");
  EXPECT_THAT(log.with("above the limit"), HasSubstr("it sent a request above the limit"));
}

TEST(SchedulerPort, StrangersWithoutEndDoNotFillTheLog) {
  const LogLines log;
  {
    RunningServer server(server_of(1));
    for (int i = 0; i < 30; ++i) {
      const RawPeer stranger(server.port());
      stranger.send("no request\r\n\r\n");
      stranger.read();
    }
  }
  const auto said = log.with("refused 20 more within a minute; the last was 127.0.0.1:");
  std::size_t lines = 0;
  for (auto at = said.find("refused 127.0.0.1:"); at != std::string::npos; at = said.find("refused 127", at + 1))
    ++lines;
  EXPECT_EQ(lines, 10U) << said;
}

TEST(SchedulerPort, RefusesWorkersThatDoNotSpeakProperly) {
  const LogLines log;
  RunningServer server(server_of(1));
  const std::string upgrade =
      "GET /v1/worker HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
      "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n";
  // A frame of text with a mask of zeros.
  const auto frame = [](const std::string& text) {
    return std::string("\x81") + static_cast<char>(0x80 | text.size()) + std::string(4, '\0') + text;
  };
  const auto say = [&](const std::string& bytes, const char* words) {
    const RawPeer peer(server.port());
    peer.send(upgrade);
    EXPECT_THAT(peer.read("\"type\":\"hello\""), HasSubstr("\"protocol\":1"));
    peer.send(bytes);
    peer.read();
    EXPECT_THAT(log.with(words), HasSubstr(words));
  };
  say(frame("nonsense"), "it is not JSON");
  say(frame("{\"type\":\"leave\",\"ok\":true,\"error\":\"\"}"), "it arrived before the process registered");
  // The header of a frame of 1 GiB.
  say(std::string("\x81\xff\x00\x00\x00\x00\x40\x00\x00\x00\x00\x00\x00\x00", 14), "it sent a message above the limit");
}

TEST(SchedulerPort, StrangersHoldNobodyUp) {
  auto options = server_of(2);
  options.most_connections = 20;
  RunningServer server(options);
  std::vector<std::unique_ptr<RawPeer>> strangers;
  for (int i = 0; i < 60; ++i) strangers.push_back(std::make_unique<RawPeer>(server.port()));
  auto sessions = start_workers({worker_of(server.port(), "w0"), worker_of(server.port(), "w1")});
  for (int i = 0; i < 60; ++i) strangers.push_back(std::make_unique<RawPeer>(server.port()));
  EXPECT_EQ(status_of(server.port())["present"], 2);
  sessions.clear();
  EXPECT_TRUE(server.wait().ok);
}

TEST(SchedulerPort, TakesNoPortTwice) {
  RunningServer server(server_of(1));
  auto options = server_of(1);
  options.port = server.port();
  expect_error(ErrorKind::io, {"cannot listen on 127.0.0.1:", "Address already in use", "MS_SCHED_PORT"},
               [&] { Server second(options); });
  options.host = "192.0.2.1";
  expect_error(ErrorKind::io, {"cannot listen on 192.0.2.1", "MS_SCHED_HOST must be an address of this machine"},
               [&] { Server second(options); });
}

}  // namespace
}  // namespace lockstep::membership
