#include "base/expect_error.h"

#include <lockstep/membership/messages.h>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace lockstep::membership {
namespace {

using namespace std::chrono_literals;
using test::expect_error;

Register some_register() {
  Register request;
  request.node_id = "worker_3";
  request.named = true;
  request.life = "abc";
  request.host = "node1";
  request.machine = "boot/net/user";
  request.pid = 77;
  request.job = "job1";
  request.generation = 2;
  request.rank = 3;
  request.turn = 2;
  request.nonce = "n";
  request.proof = "p";
  return request;
}

Register nameless() {
  Register request;
  request.node_id = "w";
  request.life = "l";
  return request;
}

Heartbeat with_page() {
  PageContent page;
  page.progress = {8, 9, CollectiveMark{"all_reduce", 41, "world"}, CollectiveMark{"all_reduce", 40, ""}, 70ms};
  page.training.total_steps = 100;
  page.training.epoch = 1;
  page.training.saved_step = 5;
  page.training.samples = 640;
  page.training.blocked = 17ns;
  page.training.doing = TimePart::evaluate;
  page.training.times.fill(3ns);
  page.training.metrics = {{"loss", 8, 0.25}, {"accuracy\n", 7, -1e300}};
  page.training.work_dir = "/data/run 1";
  return {8, 57000, 6000, page, 123456789};
}

TEST(Messages, EachReadsBackWhatWasWritten) {
  RankAssignment assignment;
  assignment.generation = 1;
  assignment.rank = 3;
  assignment.size = 8;
  assignment.local_rank = 1;
  assignment.local_size = 4;
  assignment.store_key = "key";
  assignment.proof = "proof";
  const std::vector<FromScheduler> ours = {Hello{1, "job", "nonce", true},
                                           Hello{1, "job", "nonce", false, true},
                                           Wait{3, 8, "why"},
                                           Refused{"a \"quoted\" reason\nof two lines"},
                                           assignment,
                                           StoreAt{1, "10.0.0.1", 4711},
                                           Lost{4, "w", 2, "it closed the connection", true},
                                           Ping{},
                                           Ended{false, "why", true}};
  for (const auto& message : ours) EXPECT_EQ(parse_from_scheduler(print(message)), message) << print(message);
  const std::vector<FromWorker> theirs = {
      some_register(), nameless(), StoreAt{1, "::1", 1}, Heartbeat{}, Heartbeat{5}, Heartbeat{5, 57000, 6000},
      Again{1, "why"}, Leave{},    Leave{false, "why"},  with_page()};
  for (const auto& message : theirs) EXPECT_EQ(parse_from_worker(print(message)), message) << print(message);
}

TEST(Messages, UnknownFieldsAreForLaterVersions) {
  EXPECT_EQ(parse_from_worker(R"({"type": "heartbeat", "step": 7, "mood": ["good"]})"), FromWorker(Heartbeat{7}));
  EXPECT_EQ(parse_from_worker(R"({"type": "heartbeat", "step": null})"), FromWorker(Heartbeat{}));
  EXPECT_EQ(parse_from_worker(R"({"type": "heartbeat", "step": 7, "step_us": 9, "own_us": 4})"),
            FromWorker(Heartbeat{7, 9, 4}));
}

TEST(Messages, APageOfAnotherVersionIsRead) {
  auto page = nlohmann::json::parse(print(FromWorker(with_page())));
  page["page"]["times_ns"] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  page["page"]["doing"] = 10;
  const auto read = std::get<Heartbeat>(parse_from_worker(page.dump())).page.value();
  EXPECT_EQ(read.training.times.back(), 9ns);
  EXPECT_EQ(read.training.doing, std::nullopt);
  page["page"]["times_ns"] = {1};
  EXPECT_EQ(std::get<Heartbeat>(parse_from_worker(page.dump())).page->training.times[1], 0ns);
}

TEST(Messages, AMetricNeedNotBeANumberAndAPageCannotBeTooLong) {
  auto heartbeat = with_page();
  heartbeat.page->training.metrics = {{"loss", 1, std::numeric_limits<double>::infinity()}};
  const auto read = std::get<Heartbeat>(parse_from_worker(print(FromWorker(heartbeat))));
  EXPECT_TRUE(std::isnan(read.page->training.metrics.at(0).value));
  // As long as a status page allows, and with characters that JSON makes longer.
  heartbeat.page->training.metrics.assign(16, {std::string(63, '\1'), 1, -1.2345678901234567e-300});
  heartbeat.page->training.work_dir = std::string(1023, '\1');
  for (auto* mark : {&heartbeat.page->progress.begun, &heartbeat.page->progress.ended}) {
    *mark = CollectiveMark{"reduce_scatter", 1, std::string(63, '\1')};
  }
  EXPECT_EQ(std::get<Heartbeat>(parse_from_worker(print(FromWorker(heartbeat)))), heartbeat);
}

struct BadMessage {
  const char* text;
  const char* words;
};

TEST(Messages, WhatIsWrongIsSaid) {
  const std::vector<BadMessage> cases = {
      {"", "it is not JSON"},
      {"[1, 2]", "it is not a JSON object"},
      {"\"heartbeat\"", "it is not a JSON object"},
      {"{\"type\": \"be", "it is not JSON"},
      {"{}", "it has no type"},
      {R"({"type": 5})", "it has no type"},
      {R"({"type": "hello"})", "its type is unknown"},
      {R"({"type": "leave", "ok": 1, "error": ""})", "ok is neither true nor false"},
      {R"({"type": "leave", "ok": true})", "error is missing"},
      {R"({"type": "heartbeat", "step": -1})", "step is not from 0"},
      {R"({"type": "heartbeat", "step": 1e300})", "step is no integer"},
      {R"({"type": "heartbeat", "step": 18446744073709551615})", "step is not from 0"},
      {R"({"type": "heartbeat", "page": 7})", "page is no object"},
      {R"({"type": "heartbeat", "page": {}})", "backwards is missing"},
      {R"({"type": "store_at", "generation": 1, "host": "a\nb", "port": 1})", "host has characters"},
      {R"({"type": "store_at", "generation": 1, "host": 7, "port": 1})", "host is no text"},
      {R"({"type": "store_at", "generation": 1, "host": "h", "port": 65536})", "port is not from 1 to 65535"},
      {"{\"type\": \"leave\", \"ok\": true, \"error\": \"\xff\"}", "it is not JSON"},
  };
  for (const auto& [text, words] : cases) {
    SCOPED_TRACE(text);
    expect_error(ErrorKind::data, {words}, [t = text] { parse_from_worker(t); });
  }
  expect_error(ErrorKind::data, {"rank is not from 0 to 1"}, [] {
    parse_from_scheduler(
        R"({"type":"assigned","generation":1,"rank":2,"size":2,"local_rank":0,"local_size":1,"store_key":"","proof":""})");
  });
}

TEST(Messages, HaveLimits) {
  const std::string long_name(kLongestName + 1, 'x');
  expect_error(ErrorKind::data, {"host has 257 bytes, more than 256"}, [&] {
    parse_from_worker(R"({"type": "store_at", "generation": 1, "port": 1, "host": ")" + long_name + "\"}");
  });
  auto page = nlohmann::json::parse(print(FromWorker(with_page())));
  page["page"]["metrics"] = nlohmann::json(std::vector<int>(33, 1));
  expect_error(ErrorKind::data, {"metrics is no list of up to 32 values"}, [&] { parse_from_worker(page.dump()); });
  const std::string deep(kLongestMessage, '[');
  expect_error(ErrorKind::data, {"it is not JSON"}, [&] { parse_from_worker(deep); });
  expect_error(ErrorKind::data, {"bytes are more than 16384"}, [&] { parse_from_worker(deep + "["); });
}

TEST(Messages, ReasonsOfAnyKindArrive) {
  // An exception's text may be long, and need not be UTF-8.
  const std::string text = print(FromWorker(Leave{false, std::string(100000, '\xff')}));
  EXPECT_LE(text.size(), kLongestMessage);
  const auto message = parse_from_worker(text);
  EXPECT_EQ(std::get<Leave>(message).error.substr(0, 3), "\xef\xbf\xbd");
}

}  // namespace
}  // namespace lockstep::membership
