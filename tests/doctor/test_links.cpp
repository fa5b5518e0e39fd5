// Real connections to real probe servers.
#include "doctor/sample_job.h"
#include "support/port.h"

#include <lockstep/base/error.h>
#include <lockstep/base/text.h>
#include <lockstep/doctor/links.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace lockstep::test {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

doctor::Facts at(const std::string& address, std::uint16_t port) {
  doctor::Facts facts = sound_host(1);
  facts.address = address;
  facts.probe_server = port;
  return facts;
}

TEST(DoctorLinks, ReachThoseWhoAreThere) {
  const auto facts = sound_host(1);
  const doctor::ProbeServer probe_server("127.0.0.1", facts.rank, facts.identity);
  std::vector<doctor::Facts> targets(40, at("127.0.0.1", probe_server.port()));
  std::vector<const doctor::Facts*> pointers;
  for (const auto& one : targets) pointers.push_back(&one);
  const auto links = doctor::try_links(0, pointers, 30s);
  ASSERT_EQ(links.size(), 40u);
  for (const auto& link : links) {
    EXPECT_EQ(link.problem, "");
    EXPECT_EQ(link.address, "127.0.0.1:" + std::to_string(probe_server.port()));
    // One machine has one clock.
    EXPECT_LE(std::abs(link.clock_ahead), link.clock_uncertainty + 0.001);
  }
}

TEST(DoctorLinks, SayWhyNot) {
  EXPECT_EQ(doctor::try_link(0, at("127.0.0.1", reserve_port()), doctor::WaitLimit(60s)).problem, "Connection refused");
  EXPECT_EQ(doctor::try_link(0, at("", 1), doctor::WaitLimit(60s)).problem, "it offers no address");
  EXPECT_EQ(doctor::try_link(0, at("127.0.0.1", 0), doctor::WaitLimit(60s)).problem, "it offers no address");
}

TEST(DoctorLinks, NoticeThatSomebodyElseAnswers) {
  const doctor::ProbeServer other("127.0.0.1", 7, "another machine");
  EXPECT_EQ(doctor::try_link(0, at("127.0.0.1", other.port()), doctor::WaitLimit(60s)).problem,
            "rank 7 of another host answered there");
}

TEST(DoctorLinks, NoticeThatNobodyAnswers) {
  const auto port = reserve_port();
  const auto silent = listen_on(port);
  ASSERT_GE(silent.get(), 0);
  EXPECT_EQ(doctor::try_link(0, at("127.0.0.1", port), doctor::WaitLimit(100ms)).problem,
            "it connected, but got no answer");
}

TEST(DoctorLinks, EndSoonWhenNobodyWantsToKnow) {
  const auto port = reserve_port();
  const auto silent = listen_on(port);
  ASSERT_GE(silent.get(), 0);
  std::stop_source stop;
  stop.request_stop();
  EXPECT_NE(doctor::try_link(0, at("127.0.0.1", port), doctor::WaitLimit(1h, stop.get_token())).problem, "");
}

TEST(DoctorLinks, AnswersOfOtherProgramsAreNone) {
  for (const auto* text : {"", "SSH-2.0-OpenSSH\n", "{}", "[1]", R"({"rank":"x","identity":"y","clock":1})"}) {
    EXPECT_FALSE(doctor::decode_probe_answer(text)) << text;
  }
  EXPECT_EQ(doctor::decode_probe_answer(doctor::encode({3, "node \"b\"", 1.5}))->identity, "node \"b\"");
}

TEST(DoctorLinks, AnAddressOfAnotherHostCannotBeListenedOn) {
  try {
    const doctor::ProbeServer probe_server("192.0.2.1", 0, "x");
    FAIL() << "192.0.2.1 is nobody's";
  } catch (const Error& error) {
    EXPECT_THAT(error.message(), HasSubstr("cannot listen on 192.0.2.1: Cannot assign requested address"));
  }
}

}  // namespace
}  // namespace lockstep::test
