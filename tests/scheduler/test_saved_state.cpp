#include "base/expect_error.h"

#include <lockstep/scheduler/admission.h>
#include <lockstep/scheduler/membership.h>
#include <lockstep/scheduler/saved_state.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace lockstep::scheduler {
namespace {

using nlohmann::json;
using test::expect_error;

const Time kNow{std::chrono::hours(5)};

Roll some_roll() {
  Roll roll;
  roll.job = "job";
  roll.wanted = 2;
  roll.generation = 3;
  roll.store_key = "key";
  roll.store_host = "10.0.0.1";
  roll.store_port = 4711;
  roll.last_error = "worker \"x\" is lost";
  for (int i = 0; i < 2; ++i) {
    Member& member = roll.members.emplace_back();
    member.node_id = fmt::format("w{}", i);
    member.life = "life";
    member.rank = 1 - i;
    member.generation = 3;
    member.restarts = i;
    member.phase = i == 0 ? Phase::running : Phase::waiting;
    member.link = i == 0 ? Link::open : Link::closed;
    member.step = 17;
  }
  return roll;
}

TEST(SavedState, ReadsBackWhatWasWritten) {
  const std::string text = print_state(some_roll());
  Roll roll;
  roll.wanted = 2;
  read_state(text, roll, kNow);
  EXPECT_EQ(roll.generation, 3);
  EXPECT_EQ(roll.store_port, 4711);
  ASSERT_EQ(roll.members.size(), 2U);
  EXPECT_EQ(roll.members[0].rank, 1);
  EXPECT_EQ(roll.members[0].link, Link::unknown) << "nobody is connected yet";
  EXPECT_EQ(roll.members[1].link, Link::closed) << "who was known to be dead still is";
  EXPECT_EQ(roll.members[0].heard, kNow);
  EXPECT_EQ(print_state(roll), text);
}

struct BadState {
  const char* what;
  std::string text;
  const char* words;
};

std::string changed(const char* pointer, const json& value) {
  json state = json::parse(print_state(some_roll()));
  state[json::json_pointer(pointer)] = value;
  return state.dump();
}

TEST(SavedState, WhatCannotBeUsedIsSaid) {
  const std::string whole = print_state(some_roll());
  const std::vector<BadState> cases = {
      {"empty", "", "no state of a scheduler"},
      {"cut off", whole.substr(0, whole.size() / 2), "no state of a scheduler"},
      {"another version", changed("/format", 2), "another version"},
      {"another job", changed("/worker_num", 3), "a job with 3 workers, and this one has 2 (MS_WORKER_NUM)"},
      {"a wrong type", changed("/workers/0/rank", "one"), "no state of a scheduler"},
      {"a number that is too large", changed("/store_port", 8.9e35), "no state of a scheduler"},
      {"a fraction", changed("/workers/0/restarts", 0.5), "no state of a scheduler"},
      {"a rank twice", changed("/workers/0/rank", 0), "the ranks are not those of 2 workers"},
      {"a rank too high", changed("/workers/0/rank", 2), "the ranks are not"},
      {"an id twice", changed("/workers/0/node_id", "w1"), "a node id occurs twice"},
      {"a phase that is none", changed("/workers/0/phase", "asleep"), "'asleep' is no phase"},
  };
  for (const auto& one : cases) {
    SCOPED_TRACE(one.what);
    Roll roll;
    roll.wanted = 2;
    roll.job = "untouched";
    expect_error(ErrorKind::data, {one.words}, [&] { read_state(one.text, roll, kNow); });
    EXPECT_EQ(roll.job, "untouched");
  }
}

}  // namespace
}  // namespace lockstep::scheduler
