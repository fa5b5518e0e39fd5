// What is printed, for people and for programs.
#include "doctor/sample_job.h"

#include <lockstep/doctor/checks.h>
#include <lockstep/doctor/facts.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

namespace lockstep::test {
namespace {

using namespace doctor;
using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;

Examination examination_of(JobFacts job) {
  Examination done;
  done.findings = examine(job);
  done.sound = count(done.findings, Severity::error) == 0;
  done.job = std::move(job);
  return done;
}

TEST(DoctorReport, GoodHealthIsShort) {
  EXPECT_EQ(print(examination_of(sound_job())),
            "lockstep doctor: rank 0 of 2\n"
            "  host node-a (rank 0): 10.0.0.1 (eth0), 8 CPUs, 65536 open files, /dev/shm 8192 MiB\n"
            "  host node-b (rank 1): 10.0.0.2 (eth0), 8 CPUs, 65536 open files, /dev/shm 8192 MiB\n"
            "\n"
            "fine: 2 ranks, 2 hosts, 2 ways connected.\n");
}

TEST(DoctorReport, NamesThePairAndTheMend) {
  JobFacts job = sound_job();
  job.links.pop_back();
  job.links[0].problem = "Network is unreachable";
  const auto text = print(examination_of(job));
  EXPECT_THAT(text, AllOf(HasSubstr("\nERROR  links  host node-a (rank 0) -> host node-b (rank 1)\n"
                                    "  host node-a cannot connect to host node-b at 10.0.0.2 (eth0): Network is "
                                    "unreachable\n"
                                    "  fix: open all ports"),
                          EndsWith("\n1 error, 0 warnings: fix this before a job is started.\n")));
}

TEST(DoctorReport, LogsGetWhatMatters) {
  JobFacts job = sound_job();
  EXPECT_EQ(print_findings(examination_of(job)),
            "nothing is wrong with 2 hosts and the connections between hosts; 2 of 2 ranks were examined");
  job.ranks[0].in_container = true;  // a note
  job.links[0].problem = "Network is unreachable";
  const auto text = print_findings(examination_of(job));
  EXPECT_THAT(text, AllOf(testing::StartsWith("ERROR  links  host node-a (rank 0) -> host node-b (rank 1)\n  host "),
                          testing::Not(HasSubstr("NOTE")), testing::Not(EndsWith("\n"))));
}

TEST(DoctorReport, FitsOnAScreenHoweverMuchIsWrong) {
  JobFacts job;
  job.size = 50;
  for (int rank = 0; rank < 50; ++rank) {
    job.ranks.push_back(sound_host(0));
    Facts& facts = job.ranks.back();
    facts.rank = rank;
    facts.identity += std::to_string(rank);
    facts.open_files = 1;
  }
  const auto text = print(examination_of(job));
  std::istringstream in(text);
  int lines = 0;
  for (std::string line; std::getline(in, line); ++lines) EXPECT_LE(line.size(), 110u) << line;
  EXPECT_LE(lines, 48);
  EXPECT_THAT(text, AllOf(HasSubstr("and 42 more hosts"), HasSubstr("more; --json shows all")));
}

TEST(DoctorReport, JsonHoldsEverything) {
  JobFacts job = sound_job();
  job.links[0].problem = "Connection refused";
  job.ranks[0].port = doctor::Port{9988};
  const auto json = nlohmann::json::parse(print_json(examination_of(job)));
  EXPECT_EQ(json["sound"], false);
  EXPECT_EQ(json["findings"][0]["severity"], "error");
  EXPECT_EQ(json["findings"][0]["where"], "host node-a (rank 0) -> host node-b (rank 1)");
  EXPECT_EQ(json["links"][0]["problem"], "Connection refused");
  // What ranks send each other arrives whole.
  nlohmann::json again;
  for (const auto& rank : json["ranks"]) again.push_back(rank.get<Facts>());
  EXPECT_EQ(again, json["ranks"]);
  EXPECT_EQ(json["ranks"][0]["port"]["number"], 9988);
}

}  // namespace
}  // namespace lockstep::test
