#include "base/expect_error.h"

#include <lockstep/membership/admission.h>
#include <lockstep/membership/decisions.h>
#include <lockstep/membership/service/state_writer.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace lockstep::membership {
namespace {

using nlohmann::json;
using test::expect_error;

const Time kNow{std::chrono::hours(5)};

Membership some_membership() {
  Membership membership;
  membership.job = "job";
  membership.wanted = 2;
  membership.generation = 3;
  membership.store_key = "key";
  membership.store_host = "10.0.0.1";
  membership.store_port = 4711;
  membership.last_error = "worker \"x\" is lost";
  for (int i = 0; i < 2; ++i) {
    Member& member = membership.members.emplace_back();
    member.node_id = fmt::format("w{}", i);
    member.life = "life";
    member.rank = 1 - i;
    member.generation = 3;
    member.restarts = i;
    member.phase = i == 0 ? Phase::running : Phase::waiting;
    member.link = i == 0 ? Link::open : Link::closed;
    member.step = 17;
  }
  return membership;
}

TEST(SavedState, ReadsBackWhatWasWritten) {
  const std::string text = print_state(some_membership());
  Membership membership;
  membership.wanted = 2;
  read_state(text, membership, kNow);
  EXPECT_EQ(membership.generation, 3);
  EXPECT_EQ(membership.store_port, 4711);
  ASSERT_EQ(membership.members.size(), 2U);
  EXPECT_EQ(membership.members[0].rank, 1);
  EXPECT_EQ(membership.members[0].link, Link::unknown) << "nobody is connected yet";
  EXPECT_EQ(membership.members[1].link, Link::closed) << "who was known to be dead still is";
  EXPECT_EQ(membership.members[0].heard, kNow);
  EXPECT_EQ(print_state(membership), text);
}

struct BadState {
  const char* what;
  std::string text;
  const char* words;
};

std::string changed(const char* pointer, const json& value) {
  json state = json::parse(print_state(some_membership()));
  state[json::json_pointer(pointer)] = value;
  return state.dump();
}

TEST(SavedState, WhatCannotBeUsedIsSaid) {
  const std::string whole = print_state(some_membership());
  const std::vector<BadState> cases = {
      {"empty", "", "not the state of a scheduler"},
      {"cut off", whole.substr(0, whole.size() / 2), "not the state of a scheduler"},
      {"another version", changed("/format", 2), "another version"},
      {"another job", changed("/worker_num", 3), "a job with 3 workers, and this job has 2 (MS_WORKER_NUM)"},
      {"a wrong type", changed("/workers/0/rank", "one"), "not the state of a scheduler"},
      {"a number that is too large", changed("/store_port", 8.9e35), "not the state of a scheduler"},
      {"a fraction", changed("/workers/0/restarts", 0.5), "not the state of a scheduler"},
      {"a rank twice", changed("/workers/0/rank", 0), "the ranks are not those of 2 workers"},
      {"a rank too high", changed("/workers/0/rank", 2), "the ranks are not"},
      {"an id twice", changed("/workers/0/node_id", "w1"), "a node id occurs twice"},
      {"a phase that is none", changed("/workers/0/phase", "asleep"), "'asleep' is no phase"},
  };
  for (const auto& one : cases) {
    SCOPED_TRACE(one.what);
    Membership membership;
    membership.wanted = 2;
    membership.job = "untouched";
    expect_error(ErrorKind::data, {one.words}, [&] { read_state(one.text, membership, kNow); });
    EXPECT_EQ(membership.job, "untouched");
  }
}

}  // namespace
}  // namespace lockstep::membership
