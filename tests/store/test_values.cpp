// Keys, values and who waits for them.
#include <lockstep/store/values.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace lockstep::store {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::string request(std::uint64_t number, Operation operation, const MessageWriter& fields = {}) {
  const auto message =
      MessageWriter().number(number).number(static_cast<std::uint64_t>(operation)).append(fields).message();
  return std::string(*first_body(message));
}

std::string set(std::uint64_t number, const std::string& key, const std::string& value) {
  return request(number, Operation::set, MessageWriter().text(key).text(value));
}

std::string wait(std::uint64_t number, const std::vector<std::string>& keys) {
  return request(number, Operation::wait, MessageWriter().keys(keys));
}

/// "connection/request", in the order of the answers.
std::vector<std::string> names_of(const std::vector<Answer>& answers) {
  std::vector<std::string> names;
  for (const auto& answer : answers) {
    const auto number = MessageReader(*first_body(answer.message)).number();
    names.push_back(std::to_string(answer.connection) + "/" + std::to_string(number));
  }
  return names;
}

TEST(Values, AWaitIsAnsweredWhenItsLastKeyAppears) {
  Values values;
  EXPECT_THAT(values.request(1, wait(10, {"a", "b", "c"})), IsEmpty());
  EXPECT_THAT(values.request(2, wait(10, {"b"})), IsEmpty());
  EXPECT_THAT(names_of(values.request(3, set(1, "c", "x"))), ElementsAre("3/1"));
  EXPECT_THAT(names_of(values.request(3, set(2, "a", "x"))), ElementsAre("3/2"));
  EXPECT_THAT(names_of(values.request(3, set(3, "b", "x"))), ElementsAre("3/3", "2/10", "1/10"));
  EXPECT_EQ(values.waiting(), 0U);
  EXPECT_THAT(names_of(values.request(3, set(4, "b", "y"))), ElementsAre("3/4"));
  EXPECT_THAT(names_of(values.request(1, wait(11, {"a", "b", "c"}))), ElementsAre("1/11"));
  EXPECT_THAT(names_of(values.request(1, wait(12, {}))), ElementsAre("1/12"));
}

TEST(Values, WhoEndsOrCancelsIsNotAnswered) {
  Values values;
  values.request(1, wait(1, {"a"}));
  values.request(1, wait(2, {"b"}));
  values.request(1, wait(3, {"a"}));
  values.request(2, wait(1, {"a"}));
  EXPECT_EQ(values.waiting(), 4U);
  EXPECT_THAT(values.request(1, request(4, Operation::cancel, MessageWriter().number(3))), IsEmpty());
  EXPECT_EQ(values.waiting(), 3U);
  values.forget(2);
  EXPECT_THAT(names_of(values.request(3, set(1, "a", "x"))), ElementsAre("3/1", "1/1"));
  values.forget(1);
  EXPECT_EQ(values.waiting(), 0U);
  // It was answered before it was taken back.
  EXPECT_THAT(values.request(1, request(5, Operation::cancel, MessageWriter().number(1))), IsEmpty());
}

TEST(Values, GetWaitsForItsKeyAndBringsTheValue) {
  Values values;
  EXPECT_THAT(values.request(1, request(1, Operation::get, MessageWriter().text("a"))), IsEmpty());
  const auto answers = values.request(2, set(1, "a", std::string("x\0y", 3)));
  ASSERT_EQ(answers.size(), 2U);
  MessageReader answer(*first_body(answers[1].message));
  EXPECT_EQ(answer.number(), 1U);
  EXPECT_EQ(answer.number(), static_cast<std::uint64_t>(Status::done));
  EXPECT_EQ(answer.text(), std::string("x\0y", 3));
}

TEST(Values, WhatIsNoNumberIsNotAddedTo) {
  Values values;
  const auto status_of_add = [&](const std::string& key, std::int64_t delta) {
    const auto answers = values.request(
        1, request(7, Operation::add, MessageWriter().text(key).number(static_cast<std::uint64_t>(delta))));
    MessageReader answer(*first_body(answers.at(0).message));
    answer.number();
    return static_cast<Status>(answer.number());
  };
  values.request(1, set(1, "word", "seven"));
  EXPECT_EQ(status_of_add("word", 1), Status::refused);
  EXPECT_EQ(status_of_add("new", INT64_MAX), Status::done);
  EXPECT_EQ(status_of_add("new", 1), Status::refused);
  EXPECT_EQ(status_of_add("new", -1), Status::done);
}

TEST(Values, WhatIsNoRequestIsRefused) {
  Values values;
  const auto refuse = [&](const std::string& body) { EXPECT_THROW(values.request(1, body), BadMessage) << body; };
  refuse("");
  refuse("short");
  refuse(request(1, static_cast<Operation>(0)));
  refuse(request(1, static_cast<Operation>(99)));
  refuse(request(1, Operation::set, MessageWriter().text("a")));           // no value
  refuse(request(1, Operation::count, MessageWriter().text("a")));         // too much
  refuse(request(1, Operation::set, MessageWriter().number(1ULL << 60)));  // a key without end
  refuse(request(1, Operation::wait, MessageWriter().number(~0ULL)));      // keys without end
  refuse(set(1, std::string(kMostKeyBytes + 1, 'k'), ""));                 // a key that is too long
  values.request(2, wait(1, {"a"}));
  EXPECT_THROW(values.request(2, wait(1, {"a"})), BadMessage);  // a number twice
}

TEST(Protocol, LengthsAreLimited) {
  EXPECT_FALSE(first_body(""));
  EXPECT_FALSE(first_body(std::string("\x05\0\0\0abcd", 8)));
  EXPECT_EQ(first_body(std::string("\x05\0\0\0abcdef", 10)), "abcde");
  EXPECT_THROW(first_body(std::string("\xff\xff\xff\xff", 4)), BadMessage);
  EXPECT_THROW(first_body(std::string("\x01\x00\x00\x04", 4)), BadMessage);  // a byte above 64 MiB
  EXPECT_THROW(MessageWriter().text(std::string(kMostMessageBytes, 'x')).message(), BadMessage);
}

}  // namespace
}  // namespace lockstep::store
