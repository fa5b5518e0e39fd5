// Ranks that are forks of one process, with real programs: they are as if each had been started by itself, or they are.
#include <lockstep/base/error.h>
#include <lockstep/base/temporary_folder.h>
#include <lockstep/cluster/fork_server/can_fork.h>
#include <lockstep/cluster/fork_server/fork_server.h>
#include <lockstep/cluster/launch_ranks.h>
#include <lockstep/cluster/processes/stray_processes.h>
#include <lockstep/cluster/rank_start.h>

#include "cluster/probe.h"
#include "support/forks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/mman.h>
#include <sys/wait.h>

#include <csignal>
#include <set>
#include <sstream>

namespace lockstep::cluster {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;
using testing::UnorderedElementsAre;

LaunchOptions options_for(int ranks, std::vector<std::string> actions, const Environment& more = {}) {
  LaunchOptions options;
  options.program.command = std::move(actions);
  options.program.command.insert(options.program.command.begin(), LOCKSTEP_FORKABLE_PROGRAM);
  options.processes = ranks;
  options.environment = {{"PATH", "/usr/bin:/bin"}, {"OMP_NUM_THREADS", "1"}};
  for (const auto& [name, value] : more) options.environment[name] = value;
  options.ending.grace = 30s;
  return options;
}

Launch job_for(const LaunchOptions& options, const TemporaryFolder& folder) {
  Launch job;
  job.ranks = options.processes;
  job.master_port = 1;
  job.run_id = "test";
  job.folder = folder.path();
  return job;
}

struct Ran {
  LaunchResult result;
  std::vector<std::string> out;
  std::string err;
  bool forked = false;
};

std::string content(int fd) {
  std::string text(static_cast<std::size_t>(::lseek(fd, 0, SEEK_END)), '\0');
  EXPECT_EQ(::pread(fd, text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
  return text;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

/// As a launcher does it that has a store.
Ran run(LaunchOptions options, const TemporaryFolder& folder = TemporaryFolder()) {
  const UniqueFd out(::memfd_create("out", MFD_CLOEXEC));
  const UniqueFd err(::memfd_create("err", MFD_CLOEXEC));
  options.out = out.get();
  options.err = err.get();
  const Launch job = job_for(options, folder);
  Ran ran;
  {
    ForkAttempt forks(options);
    auto forked = forks.fork(options, job);
    ran.forked = forked.has_value();
    ran.result = supervise(options, job, std::move(forked));
  }
  ran.out = lines_of(content(out.get()));
  ran.err = content(err.get());
  return ran;
}

/// The same by both ways, which is to look the same.
void expect_the_same(const LaunchOptions& options) {
  const TemporaryFolder folder;
  LaunchOptions by_itself = options;
  by_itself.start_method = StartMethod::spawn;
  const Ran expected = run(by_itself, folder);
  const Ran got = run(options, folder);
  EXPECT_FALSE(expected.forked);
  EXPECT_TRUE(got.forked);
  EXPECT_THAT(got.out, testing::UnorderedElementsAreArray(expected.out));
  EXPECT_THAT(lines_of(got.err), testing::UnorderedElementsAreArray(lines_of(expected.err)));
  EXPECT_EQ(got.result.exit_code, expected.result.exit_code);
  EXPECT_EQ(got.result.first_failed, expected.result.first_failed);
}

TEST(ForkServer, RanksAreForksOfOneProcess) {
  const Ran ran = run(options_for(3, {"execution="}));
  EXPECT_EQ(ran.result.exit_code, 0) << ran.result.report << ran.err;
  ASSERT_THAT(ran.out, SizeIs(3));
  std::set<std::string> executions;
  for (const auto& line : ran.out) executions.insert(line.substr(line.find("execution")));
  EXPECT_THAT(executions, SizeIs(1));
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "a child was not reaped";
}

TEST(ForkServer, RanksFindTheEnvironmentThatIsTheirs) {
  const Ran ran = run(options_for(2, {"env=RANK", "env=LOCAL_RANK", "env=WORLD_SIZE", "env=LOCKSTEP_FORK_SERVER"}));
  EXPECT_TRUE(ran.forked);
  EXPECT_THAT(ran.out,
              UnorderedElementsAre("[rank 0] RANK=0", "[rank 0] LOCAL_RANK=0", "[rank 0] WORLD_SIZE=2",
                                   "[rank 0] LOCKSTEP_FORK_SERVER=(unset)", "[rank 1] RANK=1", "[rank 1] LOCAL_RANK=1",
                                   "[rank 1] WORLD_SIZE=2", "[rank 1] LOCKSTEP_FORK_SERVER=(unset)"));
  // Two rank numbers and two files are all that differs, and all of it is as it would be otherwise.
  expect_the_same(options_for(2, {"all_env="}, {{"LOCKSTEP_INIT_METHOD", "env://"}, {"EMPTY", ""}}));
}

TEST(ForkServer, RanksAreLikeThoseThatAreStartedByThemselves) { expect_the_same(options_for(2, {"state="})); }

TEST(ForkServer, RanksEndLikeOthers) {
  expect_the_same(options_for(2, {"1:error=it broke", "1:exit=3", "sleep_ms=60000"}));
  expect_the_same(options_for(2, {"0:kill_self=9", "sleep_ms=60000"}));
  expect_the_same(options_for(2, {"exit7_on=15", "0:sleep_ms=1500", "0:kill_parent=15", "sleep_ms=60000"}));
}

TEST(ForkServer, WhatLoadingWritesIsWrittenByEachRank) {
  expect_the_same(options_for(2, {"print=x"}, {{"AT_LOAD", "print"}}));
  EXPECT_THAT(run(options_for(2, {"print=x"}, {{"AT_LOAD", "print"}})).out,
              UnorderedElementsAre("[rank 0] loading", "[rank 0] x", "[rank 1] loading", "[rank 1] x"));
  expect_the_same(options_for(2, {"print=x"}, {{"AT_LOAD", "buffer"}}));
}

TEST(ForkServer, IsDoneWithoutWhereItWouldNotBeSafe) {
  const auto expect_not_forked = [](const char* at_load, const char* why) {
    LaunchOptions options = options_for(2, {"print=x"}, {{"AT_LOAD", at_load}});
    options.start_method = StartMethod::fork_server;  // which makes it tell
    const Ran ran = run(options);
    EXPECT_FALSE(ran.forked) << at_load;
    EXPECT_EQ(ran.result.exit_code, 0) << at_load << ran.result.report;
    EXPECT_THAT(ran.out, UnorderedElementsAre("[rank 0] x", "[rank 1] x")) << at_load;
    EXPECT_THAT(ran.err, AllOf(HasSubstr("lockstep run: each rank loads its program itself: "), HasSubstr(why)));
  };
  expect_not_forked("thread", "starts threads");
  expect_not_forked("open", "opens files");
  expect_not_forked("kill_server", "ended");
  expect_not_forked("exit_server", "ended");
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "a child was not reaped";
}

TEST(ForkServer, IsForProgramsOfLockstepsWithTheSameWords) {
  EXPECT_EQ(obstacle_to_forking(options_for(2, {})), std::nullopt);
  const auto obstacle = [](std::vector<std::string> command, const Environment& more = {}) {
    LaunchOptions options = options_for(2, {}, more);
    options.program.command = std::move(command);
    return obstacle_to_forking(options).value_or("none");
  };
  EXPECT_THAT(obstacle({LOCKSTEP_RANK_PROGRAM}), HasSubstr("is not linked against liblockstep"));
  EXPECT_THAT(obstacle({"python3", "-c", "0"}), HasSubstr("is not linked against liblockstep"));
  EXPECT_THAT(obstacle({"no_such_program"}), HasSubstr("there is no program"));
  EXPECT_THAT(obstacle({LOCKSTEP_FORKABLE_PROGRAM, "${local_rank}"}), HasSubstr("arguments differ"));
  EXPECT_THAT(obstacle({LOCKSTEP_FORKABLE_PROGRAM}, {{"LOCKSTEP_START_METHOD", "spawn"}}), HasSubstr("requested"));
  EXPECT_EQ(obstacle({LOCKSTEP_FORKABLE_PROGRAM}, {{"LOCKSTEP_START_METHOD", "forkserver"}}), "none");
  EXPECT_THROW(obstacle({LOCKSTEP_FORKABLE_PROGRAM}, {{"LOCKSTEP_START_METHOD", "thread"}}), Error);
  LaunchOptions script = options_for(2, {});
  script.program.kind = ProgramKind::script;
  EXPECT_THAT(obstacle_to_forking(script).value_or("none"), HasSubstr("python3 is not linked"));
}

TEST(ForkServer, IsNotForProgramsWithRightsOfTheirOwn) {
  const TemporaryFolder folder;
  const auto copy = folder.path() / "program";
  std::filesystem::copy_file(LOCKSTEP_FORKABLE_PROGRAM, copy);
  LaunchOptions options = options_for(1, {});
  options.program.command = {copy.string()};
  EXPECT_EQ(obstacle_to_forking(options), std::nullopt);
  std::filesystem::permissions(copy, std::filesystem::perms::set_uid, std::filesystem::perm_options::add);
  EXPECT_THAT(obstacle_to_forking(options).value_or("none"), HasSubstr("other rights than its caller"));
}

TEST(ForkServer, SaysWhatCannotBeRunAsOthersDo) {
  const TemporaryFolder folder;
  const auto copy = folder.path() / "program";
  std::filesystem::copy_file(LOCKSTEP_FORKABLE_PROGRAM, copy);
  std::filesystem::permissions(copy, std::filesystem::perms::owner_read);
  LaunchOptions options = options_for(2, {});
  options.program.command = {copy.string()};
  try {
    run(options);
    ADD_FAILURE() << "it ran";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("cannot run " + copy.string()));
  }
}

TEST(ForkServer, ForksOneJobAfterAnother) {
  const LaunchOptions options = options_for(2, {"0@0:exit=3", "env=TORCHELASTIC_RESTART_COUNT"});
  const TemporaryFolder folder;
  ForkAttempt forks(options);
  for (const int restarts : {0, 1}) {
    Launch job = job_for(options, folder);
    job.restarts = restarts;
    auto forked = forks.fork(options, job);
    ASSERT_TRUE(forked);
    EXPECT_EQ(supervise(options, job, std::move(forked)).exit_code, restarts == 0 ? 3 : 0);
  }
}

pid_t pid_of_server() {
  const auto children = children_of_this_process();
  EXPECT_THAT(children, SizeIs(1));
  return children.empty() ? -1 : *children.begin();
}

TEST(ForkServer, IsDoneWithoutWhenItIsKilled) {
  const Subreaper subreaper;
  const LaunchOptions options = options_for(2, {"print=x"});
  const TemporaryFolder folder;
  test::Probe probe;
  {
    ForkAttempt forks(options);
    ASSERT_TRUE(forks.ready());
    ::kill(pid_of_server(), SIGKILL);
    EXPECT_FALSE(forks.fork(options, job_for(options, folder)));
    EXPECT_FALSE(forks.ready());
  }
  EXPECT_TRUE(probe.nobody_left());
}

TEST(ForkServer, RanksThatWereNotReleasedNeverBegin) {
  test::Probe probe;
  const TemporaryFolder folder;
  const LaunchOptions options = options_for(2, {"note=began"});
  {
    ForkServer server(options);
    ASSERT_EQ(server.await_obstacle(), std::nullopt);
    const auto forked = server.fork(prepare_ranks(options, job_for(options, folder)));
    EXPECT_THAT(forked.children, SizeIs(2));
  }
  EXPECT_TRUE(probe.nobody_left());
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "0" / "error.json"));
}

/// The launcher's steps, after each of which it may be killed.
void launch_until(int step, const std::filesystem::path& folder) {
  const LaunchOptions options = options_for(2, {"note=began", "sleep_ms=60000"});
  Launch job;
  job.ranks = 2;
  job.folder = folder;
  ForkServer server(options);
  if (step == 0) std::raise(SIGKILL);
  if (server.await_obstacle()) return;
  if (step == 1) std::raise(SIGKILL);
  const auto forked = server.fork(prepare_ranks(options, job));
  std::raise(SIGKILL);
}

TEST(ForkServer, NobodyIsLeftWhenTheLauncherIsKilled) {
  for (int step = 0; step <= 2; ++step) {
    test::Probe probe;
    const TemporaryFolder folder;
    const auto outcomes = test::fork_outcomes(1, {}, [&](int) { launch_until(step, folder.path()); });
    EXPECT_EQ(outcomes[0].status, (ExitStatus{0, SIGKILL})) << step << test::describe(outcomes[0]);
    EXPECT_TRUE(probe.nobody_left()) << step;
    EXPECT_FALSE(std::filesystem::exists(folder.path() / "0" / "error.json")) << step;
  }
}

TEST(ForkServer, NobodyIsLeftWhenTheLauncherIsKilledWhileRanksRun) {
  test::Probe probe;
  const TemporaryFolder folder;
  const auto outcomes = test::fork_outcomes(1, {}, [&](int) {
    run(options_for(2, {"leave=here", "1:sleep_ms=300", "1:kill_parent=9", "sleep_ms=60000"}), folder);
  });
  EXPECT_EQ(outcomes[0].status, (ExitStatus{0, SIGKILL})) << test::describe(outcomes[0]);
  EXPECT_TRUE(probe.nobody_left());
}

}  // namespace
}  // namespace lockstep::cluster
