// The launcher's decisions, apart from any process.
#include <lockstep/base/error.h>
#include <lockstep/base/temporary_folder.h>
#include <lockstep/cluster/failure.h>
#include <lockstep/cluster/flag_values.h>
#include <lockstep/cluster/output/rank_stream.h>
#include <lockstep/cluster/processes/ending.h>
#include <lockstep/cluster/processes/stray_processes.h>
#include <lockstep/cluster/rank_start.h>
#include <lockstep/cluster/replace/replacements.h>
#include <lockstep/cluster/report.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fcntl.h>
#include <pty.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <fstream>

namespace lockstep::cluster {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using Lines = std::vector<std::string>;

Lines split(std::size_t longest, const Lines& chunks) {
  LineSplitter splitter(longest);
  Lines lines;
  const auto take = [&](std::string_view line) { lines.emplace_back(line); };
  for (const auto& chunk : chunks) splitter.feed(chunk, take);
  splitter.finish(take);
  return lines;
}

RankEnd end_at(std::int64_t step, int signal, const std::string& cause = "", int rank = 1) {
  static pid_t pid = 100;
  RankEnd end;
  end.rank = rank;
  end.pid = ++pid;
  end.status.signal = signal;
  end.cause = cause;
  end.progress = RankProgress{};
  if (step > 0) end.progress->step = step;
  return end;
}

bool is_repeated(const RankEnd& first, const RankEnd& second) {
  const LaunchOptions options;
  const Launch job;
  Replacements replacements(options, job, {});
  EXPECT_FALSE(replacements.repeats_a_death(first));
  return replacements.repeats_a_death(second);
}

TEST(Deaths, OfTheSameKindAtTheSameStepAreNotRepeatedAgain) {
  const std::string memory = "the kernel killed it for lack of memory";
  EXPECT_TRUE(is_repeated(end_at(7, SIGSEGV), end_at(7, SIGSEGV)));
  EXPECT_TRUE(is_repeated(end_at(7, SIGSEGV), end_at(0, SIGSEGV))) << "the new process completed no step";
  EXPECT_TRUE(is_repeated(end_at(0, SIGKILL, memory), end_at(0, SIGKILL, memory)));
  EXPECT_TRUE(is_repeated(end_at(7, SIGKILL, memory, 1), end_at(7, SIGKILL, memory, 0))) << "any may be taken";
  EXPECT_FALSE(is_repeated(end_at(7, SIGSEGV), end_at(8, SIGSEGV)));
  EXPECT_FALSE(is_repeated(end_at(7, SIGSEGV), end_at(7, SIGBUS)));
  EXPECT_FALSE(is_repeated(end_at(7, SIGSEGV), end_at(7, SIGSEGV, "", 0))) << "another rank";
  EXPECT_FALSE(is_repeated(end_at(7, SIGKILL), end_at(7, SIGKILL))) << "somebody kills them";
  EXPECT_FALSE(is_repeated(end_at(7, SIGKILL), end_at(7, SIGKILL, memory)));
  auto unknown = end_at(7, SIGSEGV);
  unknown.progress.reset();
  EXPECT_FALSE(is_repeated(unknown, unknown)) << "nobody knows how far they had come";
}

TEST(Deaths, ForLackOfMemoryAreNamedInTheReport) {
  const RankEnd ends[] = {end_at(7, SIGKILL, "the kernel killed it for lack of memory (limit 9 MiB, peak 9 MiB)")};
  const auto outcome = judge(ends, std::nullopt);
  EXPECT_THAT(outcome.report, HasSubstr("reason: the kernel killed it for lack of memory (limit 9 MiB, peak 9 MiB)"));
  EXPECT_THAT(outcome.report, HasSubstr("use a smaller batch or fewer ranks on a node"));
}

TEST(LineSplitter, JoinsWhatArrivesInPieces) {
  EXPECT_THAT(split(100, {"ab", "c\nde", "f\n\n", "gh"}), ElementsAre("abc\n", "def\n", "\n", "gh"));
}

TEST(LineSplitter, KeepsCarriageReturnsAsEnds) {
  EXPECT_THAT(split(100, {"10%\r20%\r", "\r\n", "x\r", "\ny\r"}),
              ElementsAre("10%\r", "20%\r", "\r\n", "x\r\n", "y\r"));
}

TEST(LineSplitter, CutsOverlongLinesAndLosesNothing) {
  EXPECT_THAT(split(4, {"abcdefghij\nk"}), ElementsAre("abcd", "efgh", "ij\n", "k"));
  const std::string binary("\0\xff\n\0", 4);
  EXPECT_THAT(split(100, {binary}), ElementsAre(std::string("\0\xff\n", 3), std::string(1, '\0')));
}

TEST(LineTail, KeepsTheLastTellingLines) {
  LineTail tail(2, 5);
  for (const char* line : {"first\n", "second\n", "\n", "50%\r", "x \n"}) tail.add(line);
  EXPECT_THAT(tail.lines(), ElementsAre("secon...", "x"));
}

TEST(ConsoleSink, WritesAllInTurnAndDropsWhenTheReaderIsGone) {
  ::signal(SIGPIPE, SIG_IGN);
  Pipe pipe = make_pipe();
  ConsoleSink sink(pipe.write_end.get());
  const std::string text(10'000, 'a');
  sink.append(text);
  std::string read;
  while (sink.pending()) {
    sink.write_some();
    std::array<char, 8192> buffer;
    read.append(buffer.data(), static_cast<std::size_t>(::read(pipe.read_end.get(), buffer.data(), buffer.size())));
  }
  EXPECT_EQ(read, text);

  EXPECT_FALSE(sink.take_lost());
  pipe.read_end.reset();
  sink.append("nobody reads this");
  sink.write_some();
  EXPECT_FALSE(sink.pending());
  EXPECT_TRUE(sink.take_lost());
  EXPECT_FALSE(sink.take_lost());
  sink.append("nor this");
  EXPECT_FALSE(sink.pending());
  ::signal(SIGPIPE, SIG_DFL);
}

TEST(ConsoleSink, IsFullAtOneMebibyte) {
  ConsoleSink sink(-1);
  sink.append(std::string((1 << 20) - 1, 'a'));
  EXPECT_FALSE(sink.full());
  sink.append("b");
  EXPECT_TRUE(sink.full());
}

TEST(RankStream, ClearsWhatALongerRedrawnLineLeftOnATerminal) {
  int master = -1;
  int terminal = -1;
  ASSERT_EQ(::openpty(&master, &terminal, nullptr, nullptr, nullptr), 0);
  const UniqueFd close_master(master);
  const UniqueFd close_terminal(terminal);
  ConsoleSink sink(terminal);
  Pipe pipe = make_pipe();
  RankStream stream(std::move(pipe.read_end), "[rank 0] ", sink);
  const std::string_view written = "50%\rdone\nnext\n";
  ASSERT_EQ(::write(pipe.write_end.get(), written.data(), written.size()), static_cast<ssize_t>(written.size()));
  stream.read_some();
  while (sink.pending()) sink.write_some();
  std::array<char, 256> shown{};
  const ssize_t count = ::read(master, shown.data(), shown.size());
  EXPECT_EQ(std::string(shown.data(), static_cast<std::size_t>(count)),
            "[rank 0] 50%\r[rank 0] \033[Kdone\r\n[rank 0] next\r\n");
}

// ---- when ranks are told to end

const Ending::Time kStart{};
const EndingPolicy kPolicy{.grace = 10s, .settle = 300ms, .after_kill = 5s};

TEST(Ending, AFailureLetsOthersSpeakThenAsksThenKills) {
  Ending ending(kPolicy);
  EXPECT_FALSE(ending.deadline());
  ending.rank_failed(kStart);
  EXPECT_EQ(ending.deadline(), kStart + 300ms);
  ending.rank_failed(kStart + 100ms);  // a second one changes nothing
  EXPECT_EQ(ending.tick(kStart + 299ms), std::nullopt);
  EXPECT_EQ(ending.tick(kStart + 300ms), SIGTERM);
  EXPECT_EQ(ending.tick(kStart + 10s), std::nullopt);
  EXPECT_EQ(ending.tick(kStart + 10300ms), SIGKILL);
  EXPECT_FALSE(ending.gave_up());
  EXPECT_EQ(ending.tick(kStart + 15300ms), std::nullopt);
  EXPECT_TRUE(ending.gave_up());
  EXPECT_EQ(ending.interrupted_by(), std::nullopt);
}

TEST(Ending, ForwardsTheUsersSignalAndKillsAtTheSecond) {
  Ending ending(kPolicy);
  EXPECT_EQ(ending.user_signal(SIGINT, kStart), SIGINT);
  EXPECT_EQ(ending.deadline(), kStart + 10s);
  EXPECT_EQ(ending.user_signal(SIGTERM, kStart + 1s), SIGKILL);
  EXPECT_EQ(ending.interrupted_by(), SIGINT);
}

TEST(Ending, KillsWhenTheGraceAfterASignalIsOver) {
  Ending ending(kPolicy);
  ending.user_signal(SIGHUP, kStart);
  EXPECT_EQ(ending.tick(kStart + 10s), SIGKILL);
}

TEST(Ending, ASignalAfterAFailureIsNotTheReason) {
  Ending ending(kPolicy);
  ending.rank_failed(kStart);
  EXPECT_EQ(ending.user_signal(SIGINT, kStart + 10ms), SIGINT);
  EXPECT_EQ(ending.interrupted_by(), std::nullopt);
}

TEST(Ending, WhatIsLeftAfterAllRanksIsAskedOnce) {
  Ending ending(kPolicy);
  EXPECT_EQ(ending.ranks_ended(kStart), SIGTERM);
  EXPECT_EQ(ending.ranks_ended(kStart), std::nullopt);
  EXPECT_EQ(ending.tick(kStart + 10s), SIGKILL);
}

// ---- who is to blame

RankEnd end_of(int rank, ExitStatus status, int after_ms, int asked = 0) {
  RankEnd end;
  end.rank = rank;
  end.pid = 100 + rank;
  end.status = status;
  end.when = std::chrono::system_clock::time_point(std::chrono::milliseconds(after_ms));
  end.after = std::chrono::milliseconds(after_ms);
  end.asked = asked;
  return end;
}

RankEnd with_note(RankEnd end, std::string message, std::string kind, std::optional<int> at_ms = std::nullopt) {
  end.note = FailureNote{std::move(message), std::move(kind), std::nullopt};
  if (at_ms) end.note->when = std::chrono::system_clock::time_point(std::chrono::milliseconds(*at_ms));
  return end;
}

TEST(Judge, AllWell) {
  const std::vector<RankEnd> ends = {end_of(0, {}, 10), end_of(1, {}, 20)};
  const RunOutcome outcome = judge(ends, std::nullopt);
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.report, "");
  EXPECT_EQ(outcome.first_failed, std::nullopt);
}

TEST(Judge, TheEarliestFailureGivesTheCodeAndItsLastLinesTheReason) {
  std::vector<RankEnd> ends = {end_of(0, {0, SIGTERM}, 900, SIGTERM), end_of(1, {3, 0}, 500), end_of(2, {4, 0}, 600)};
  ends[1].last_lines = {"Traceback", "ValueError: no"};
  const RunOutcome outcome = judge(ends, std::nullopt);
  EXPECT_EQ(outcome.exit_code, 3);
  EXPECT_EQ(outcome.first_failed, 1);
  EXPECT_EQ(outcome.report,
            "lockstep run: rank 1 (pid 101) failed first, 0.5 s after the start: exit code 3\n"
            "  reason: it wrote no error file; its last lines on stderr:\n"
            "    Traceback\n"
            "    ValueError: no\n"
            "  rank 0 (pid 100): signal 15 (SIGTERM), sent by the launcher\n"
            "  rank 2 (pid 102): exit code 4\n");
}

TEST(Judge, ASignalIsReportedAsTheShellDoes) {
  const std::vector<RankEnd> ends = {end_of(0, {0, SIGKILL}, 500)};
  const RunOutcome outcome = judge(ends, std::nullopt);
  EXPECT_EQ(outcome.exit_code, 137);
  EXPECT_THAT(outcome.report, HasSubstr("signal 9 (SIGKILL)\n  reason: not known"));

  RankEnd elsewhere = ends.front();
  elsewhere.host = "node7";
  EXPECT_THAT(judge(std::vector{elsewhere}, std::nullopt).report, HasSubstr("rank 0 (pid 100 on node7) failed first"));
}

TEST(Judge, ALostPeerIsAConsequenceEvenWhenItEndsFirst) {
  const std::vector<RankEnd> ends = {with_note(end_of(0, {1, 0}, 500), "rank 1 left", "peer_lost", 490),
                                     with_note(end_of(1, {5, 0}, 700), "disk full", "io", 495)};
  const RunOutcome outcome = judge(ends, std::nullopt);
  EXPECT_EQ(outcome.first_failed, 1);
  EXPECT_EQ(outcome.exit_code, 5);
  EXPECT_THAT(outcome.report,
              HasSubstr("reason: disk full\n  rank 0 (pid 100): exit code 1, because it lost another rank\n"));
}

TEST(Judge, TheTimeInTheNoteCountsNotTheOrderOfEnds) {
  const std::vector<RankEnd> ends = {with_note(end_of(0, {1, 0}, 500), "second", "io", 499),
                                     with_note(end_of(1, {1, 0}, 510), "first", "io", 498)};
  EXPECT_EQ(judge(ends, std::nullopt).first_failed, 1);
}

TEST(Judge, TellsHowFarTheFirstHadComeAndWhoWasElsewhere) {
  const CollectiveMark reduce{"all_reduce", 1312, "world"};
  const RankProgress stuck{811, 811, reduce, CollectiveMark{"broadcast", 1311, "world"}, 4230ms};
  std::vector<RankEnd> ends = {end_of(0, {1, 0}, 600), end_of(1, {0, SIGKILL}, 500), end_of(2, {1, 0}, 600),
                               end_of(3, {1, 0}, 600)};
  ends[0].progress = RankProgress{std::nullopt, 812, reduce, reduce, 100ms};
  ends[1].progress = ends[2].progress = stuck;
  ends[2].progress->since_begun = 4100ms;
  ends[3].progress = RankProgress{};
  const auto report = judge(ends, std::nullopt).report;
  EXPECT_THAT(report, HasSubstr("signal 9 (SIGKILL)\n  it had completed step 811 and was in all_reduce 1312 of group "
                                "\"world\", which it began 4.2 s before (the last that ended: broadcast 1311 of group "
                                "\"world\")\n  reason: "));
  EXPECT_THAT(report, HasSubstr("rank 0 (pid 100): exit code 1; it had completed 812 backward passes and had finished "
                                "all_reduce 1312 of group \"world\"\n"));
  EXPECT_THAT(report, HasSubstr("rank 2 (pid 102): exit code 1\n")) << "it was where the first was";
  EXPECT_THAT(report, HasSubstr("rank 3 (pid 103): exit code 1\n")) << "it had no group yet";
}

TEST(Judge, ARankThatLeftItsReasonAndWasCutShortIsStillTheFirst) {
  const std::vector<RankEnd> ends = {with_note(end_of(0, {1, 0}, 500), "rank 1 left", "peer_lost", 490),
                                     with_note(end_of(1, {0, SIGTERM}, 900, SIGTERM), "NaN in step 3", "numeric", 480)};
  const RunOutcome outcome = judge(ends, std::nullopt);
  EXPECT_EQ(outcome.first_failed, 1);
  EXPECT_EQ(outcome.exit_code, 1);
}

TEST(Judge, AUsersMistakeThatWasCutShortIsOneAllTheSame) {
  const std::vector<RankEnd> ends = {with_note(end_of(0, {0, SIGTERM}, 900, SIGTERM), "lr is -1", "config", 480)};
  EXPECT_TRUE(is_users_mistake(ends[0]));
  EXPECT_EQ(judge(ends, std::nullopt).exit_code, 2);
}

// Python's processes take their time to end: one that only noticed may be gone before the one that failed.
TEST(Judge, ARankWhoseLastLineIsOfALostPeerComesAfterOthers) {
  std::vector<RankEnd> ends = {end_of(0, {1, 0}, 500), end_of(1, {1, 0}, 510)};
  ends[0].last_lines = {"Traceback",
                        "RuntimeError: [gloo/transport/tcp/pair.cc:598] Connection closed by peer [::1]:7"};
  ends[1].last_lines = {"Traceback", "ValueError: rank 1 was told to fail"};
  EXPECT_EQ(judge(ends, std::nullopt).first_failed, 1);
}

TEST(Judge, AnInterruptedJobEndsWithTheSignalUnlessARankHasACodeOfItsOwn) {
  const std::vector<RankEnd> obeyed = {end_of(0, {0, SIGINT}, 500, SIGINT), end_of(1, {}, 500, SIGINT)};
  const RunOutcome outcome = judge(obeyed, SIGINT);
  EXPECT_EQ(outcome.exit_code, 130);
  EXPECT_EQ(outcome.first_failed, std::nullopt);
  EXPECT_THAT(outcome.report, HasSubstr("ended by SIGINT; 2 ranks ended"));

  const std::vector<RankEnd> own = {end_of(0, {0, SIGTERM}, 500, SIGTERM), end_of(1, {75, 0}, 500, SIGTERM)};
  EXPECT_EQ(judge(own, SIGTERM).exit_code, 75);
}

/// What a rank leaves that was in this call of the group world since `waited` when it ended.
RankCalls calls_of(std::uint64_t number, std::chrono::milliseconds waited) {
  const RankCalls::Time end(std::chrono::hours(1));
  return {.rank = 0,
          .groups = {{"world", {{.op = "barrier", .number = number, .asked = end - waited, .begun = end - waited}}}},
          .until = end};
}

TEST(Judge, TheReportEndsWithTheCallThatARankLacks) {
  std::vector<RankEnd> ends = {end_of(0, {1, 0}, 500), end_of(1, {0, SIGKILL}, 9500, SIGKILL)};
  ends[0].calls = calls_of(8, 4s);
  ends[1].calls = calls_of(7, 20s);
  // Its end was 9 s later, and times are those of the first failure.
  EXPECT_THAT(judge(ends, std::nullopt).report,
              testing::EndsWith("  calls: group \"world\": not all ranks have made barrier 8\n"
                                "           rank 0 is in it, since 4.0 s\n"
                                "           rank 1 has not made it; it is in barrier 7, since 11.0 s\n"));
  // A user ends a job that hangs, or one that computes.
  ends = {end_of(0, {0, SIGINT}, 500, SIGINT), end_of(1, {0, SIGINT}, 500, SIGINT)};
  ends[0].calls = calls_of(8, 4s);
  ends[1].calls = calls_of(7, 4s);
  EXPECT_THAT(judge(ends, SIGINT).report, HasSubstr("not all ranks have made barrier 8"));
  ends[0].calls = calls_of(8, 1s);
  ends[1].calls = calls_of(7, 1s);
  EXPECT_THAT(judge(ends, SIGINT).report, Not(HasSubstr("calls:")));
}

// ---- environment, counts, files

TEST(RankEnvironment, AVirtualLocalRankIsTheFirstOfOneDevice) {
  Launch job;
  job.ranks = 2;
  job.virtual_local_rank = true;
  const Environment second = environment_of_rank({}, job, 1);
  EXPECT_EQ(second.at("RANK"), "1");
  EXPECT_EQ(second.at("LOCAL_RANK"), "0");
  EXPECT_EQ(second.at("CUDA_VISIBLE_DEVICES"), "1");
  EXPECT_EQ(environment_of_rank({{"CUDA_VISIBLE_DEVICES", "4,GPU-7"}}, job, 1).at("CUDA_VISIBLE_DEVICES"), "GPU-7");
}

TEST(RankEnvironment, IsTorchruns) {
  Launch job;
  job.ranks = 2;
  job.master_port = 4242;
  job.run_id = "id";
  job.folder = "/folder";
  const Environment environment = environment_of_rank({{"HOME", "/h"}, {"RANK", "7"}}, job, 1);
  const Environment expected = {
      {"GLIBC_TUNABLES",
       "glibc.malloc.mmap_threshold=33554432:glibc.malloc.trim_threshold=17179869184:glibc.malloc.hugetlb=1"},
      {"GROUP_RANK", "0"},
      {"GROUP_WORLD_SIZE", "1"},
      {"HOME", "/h"},
      {"LOCAL_RANK", "1"},
      {"LOCAL_WORLD_SIZE", "2"},
      {"LOCKSTEP_STARTED_INSIDE", ""},
      {"LOCKSTEP_STATUS_FILE", "/folder/1/status"},
      {"MASTER_ADDR", "127.0.0.1"},
      {"MASTER_PORT", "4242"},
      {"OMP_NUM_THREADS", "1"},
      {"PYTHONUNBUFFERED", "1"},
      {"RANK", "1"},
      {"ROLE_NAME", "default"},
      {"ROLE_RANK", "1"},
      {"ROLE_WORLD_SIZE", "2"},
      {"TORCHELASTIC_ERROR_FILE", "/folder/1/error.json"},
      {"TORCHELASTIC_MAX_RESTARTS", "0"},
      {"TORCHELASTIC_RESTART_COUNT", "0"},
      {"TORCHELASTIC_RUN_ID", "id"},
      {"TORCHELASTIC_USE_AGENT_STORE", "True"},
      {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"},
      {"WORLD_SIZE", "2"},
  };
  EXPECT_EQ(environment, expected);
}

TEST(RankEnvironment, NamesTheLaunchersAroundIt) {
  Launch job;
  job.ranks = 2;
  const Environment inside = {{"OMPI_COMM_WORLD_RANK", "0"},
                              {"OMPI_COMM_WORLD_SIZE", "1"},
                              {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                              {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"},
                              {"LOCKSTEP_STARTED_INSIDE", "slurm"},
                              {"RANK", "0"},
                              {"WORLD_SIZE", "1"}};
  EXPECT_EQ(environment_of_rank(inside, job, 0).at("LOCKSTEP_STARTED_INSIDE"), "pytorch,open_mpi");
}

TEST(RankEnvironment, OfOneNodeOfSeveral) {
  Launch job;
  job.ranks = 2;
  job.first_rank = 4;
  job.world_size = 6;
  job.hosts_store = false;
  job.master_addr = "10.0.0.1";
  job.master_port = 9988;
  const Environment inherited = {{"LOCKSTEP_INIT_METHOD", "tcp://elsewhere:1"}};
  const Environment environment = environment_of_rank(inherited, job, 1);
  for (const auto& [name, value] : Environment{{"RANK", "5"},
                                               {"WORLD_SIZE", "6"},
                                               {"LOCAL_RANK", "1"},
                                               {"LOCAL_WORLD_SIZE", "2"},
                                               {"GROUP_RANK", "2"},
                                               {"GROUP_WORLD_SIZE", "3"},
                                               {"MASTER_ADDR", "10.0.0.1"},
                                               {"MASTER_PORT", "9988"},
                                               {"TORCHELASTIC_USE_AGENT_STORE", "False"}}) {
    EXPECT_EQ(environment.at(name), value) << name;
  }
  EXPECT_FALSE(environment.contains("LOCKSTEP_INIT_METHOD"));
  job.store_path = "/shared/store";
  EXPECT_EQ(environment_of_rank(inherited, job, 1).at("LOCKSTEP_INIT_METHOD"), "file:///shared/store");
}

TEST(RankEnvironment, NamesTheLaunchersOwnStore) {
  Launch job;
  job.own_store = {"127.0.0.1:4711", "random"};
  const Environment inherited = {{"LOCKSTEP_STORE", "of a launcher around this"}, {"LOCKSTEP_STORE_SECRET", "given"}};
  const auto told = environment_of_rank(inherited, job, 0);
  EXPECT_EQ(told.at("LOCKSTEP_STORE"), "127.0.0.1:4711");
  EXPECT_EQ(told.at("LOCKSTEP_STORE_SECRET"), "random");
  job.own_store = {};
  const auto not_told = environment_of_rank(inherited, job, 0);
  EXPECT_FALSE(not_told.contains("LOCKSTEP_STORE"));
  EXPECT_EQ(not_told.at("LOCKSTEP_STORE_SECRET"), "given");  // for a store that rank 0 hosts
}

TEST(RankEnvironment, TellsOfATerminal) {
  Launch job;
  EXPECT_FALSE(environment_of_rank({}, job, 0).contains("LOCKSTEP_TERMINAL_COLUMNS"));
  job.columns = 71;
  EXPECT_EQ(environment_of_rank({}, job, 0).at("LOCKSTEP_TERMINAL_COLUMNS"), "71");
}

TEST(RankEnvironment, LeavesTheUsersThreadsAlone) {
  EXPECT_FALSE(limits_threads({{"OMP_NUM_THREADS", "4"}}, 2));
  EXPECT_FALSE(limits_threads({}, 1));
  EXPECT_TRUE(limits_threads({}, 2));
  Launch job;
  job.ranks = 2;
  EXPECT_EQ(environment_of_rank({{"OMP_NUM_THREADS", "4"}}, job, 0).at("OMP_NUM_THREADS"), "4");
  job.ranks = 1;
  EXPECT_FALSE(environment_of_rank({}, job, 0).contains("OMP_NUM_THREADS"));
}

TEST(ProcessCount, WordsAndNumbers) {
  EXPECT_EQ(parse_process_count("3", {.cpus = 8, .gpus = 0}), 3);
  EXPECT_EQ(parse_process_count("cpu", {.cpus = 8, .gpus = 2}), 8);
  EXPECT_EQ(parse_process_count("gpu", {.cpus = 8, .gpus = 2}), 2);
  EXPECT_EQ(parse_process_count("auto", {.cpus = 8, .gpus = 2}), 2);
  EXPECT_EQ(parse_process_count("auto", {.cpus = 8, .gpus = 0}), 8);
  EXPECT_GE(usable_cpus(), 1);
}

TEST(ProcessCount, RefusesTheRest) {
  for (const char* text : {"0", "-1", "", "2x", "all", "99999999999", " 2"}) {
    try {
      parse_process_count(text, {});
      FAIL() << "accepted '" << text << "'";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr(std::string("'") + text + "'"));
    }
  }
  EXPECT_THROW(parse_process_count("gpu", {.cpus = 8, .gpus = 0}), Error);
}

/// As a container's /dev/termination-log is one: a file that nothing can be renamed onto.
TEST(ErrorFile, AFileThatCannotBeReplacedIsWrittenInPlace) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "log";
  const UniqueFd log(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  const Environment environment = {{"TORCHELASTIC_ERROR_FILE", fmt::format("/proc/self/fd/{}", log.get())}};
  report_failure(Error(ErrorKind::numeric, "train", "the loss is NaN"), environment);
  const auto note = read_error_file(path);
  ASSERT_TRUE(note);
  EXPECT_EQ(note->kind, "numeric");
}

TEST(ErrorFile, KeepsMessageKindAndTime) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "error.json";
  const auto before = std::chrono::system_clock::now();
  report_failure(Error(ErrorKind::peer_lost, "comm", "rank 1 left \xff"), {{"TORCHELASTIC_ERROR_FILE", path.string()}});
  const auto note = read_error_file(path);
  ASSERT_TRUE(note);
  EXPECT_EQ(note->message, R"([comm] rank 1 left \xff)");
  EXPECT_TRUE(note->is_consequence());
  ASSERT_TRUE(note->when);
  EXPECT_GE(*note->when, before);
  EXPECT_LE(*note->when, std::chrono::system_clock::now());
}

TEST(ErrorFile, NeverFailsTheFailing) {
  const TemporaryFolder folder;
  const auto reported = [&](const Environment& environment) {
    report_failure(std::runtime_error("x"), environment);
    return !std::filesystem::is_empty(folder.path());
  };
  EXPECT_FALSE(reported({}));
  EXPECT_FALSE(reported({{"TORCHELASTIC_ERROR_FILE", ""}}));
  EXPECT_FALSE(reported({{"TORCHELASTIC_ERROR_FILE", folder.path() / "no" / "file"}}));
  EXPECT_TRUE(reported({{"TORCHELASTIC_ERROR_FILE", folder.path() / "file"}})) << "where it can, it does";
}

TEST(ErrorFile, ReadsTorchsFormatsAndRefusesOthers) {
  const TemporaryFolder folder;
  const auto read = [&](std::string_view text) {
    const auto path = folder.path() / "error.json";
    std::ofstream(path, std::ios::trunc) << text;
    return read_error_file(path);
  };
  const auto torch = read(R"({"message": {"message": "ValueError: no", "extraInfo": {"timestamp": "1700000000"}}})");
  ASSERT_TRUE(torch);
  EXPECT_EQ(torch->message, "ValueError: no");
  EXPECT_EQ(torch->kind, "");
  EXPECT_EQ(torch->when, std::nullopt);
  EXPECT_EQ(read(R"({"message": "text", "timestamp": 17})")->message, "text");
  for (const char* bad : {"", "{", "[]", "{}", R"({"message": 3})", R"({"message": {}})"})
    EXPECT_FALSE(read(bad)) << bad;
  EXPECT_EQ(read(R"({"message": {"message": "m", "extraInfo": 3}})")->message, "m");
  EXPECT_EQ(read(R"({"message": {"message": "m", "extraInfo": {"py_callstack": "Traceback:\nm"}}})")->message,
            "Traceback:\nm");
  EXPECT_FALSE(read_error_file(folder.path() / "missing"));
}

TEST(RankCommand, GivesAPythonScriptToPythonUnlessItCanRunItself) {
  const TemporaryFolder folder;
  const std::string script = folder.path() / "a.py";
  std::ofstream(script) << "print()";
  EXPECT_THAT(command_of_rank({{script, "-x"}}, 0, {}), ElementsAre("python3", "-u", script, "-x"));
  EXPECT_THAT(command_of_rank({{script}}, 0, {{"PYTHON_EXEC", "/opt/py"}}), ElementsAre("/opt/py", "-u", script));
  std::filesystem::permissions(script, std::filesystem::perms::owner_all);
  EXPECT_THAT(command_of_rank({{script}}, 0, {}), ElementsAre(script));
  EXPECT_THAT(command_of_rank({{"prog", "x.py"}}, 0, {}), ElementsAre("prog", "x.py"));
  EXPECT_THROW(command_of_rank({}, 0, {}), Error);
}

TEST(RankCommand, RunsWhatTheUserSaysItIs) {
  const TemporaryFolder folder;
  const std::string script = folder.path() / "a.py";
  std::ofstream(script) << "print()";
  EXPECT_THAT(command_of_rank({{script}, ProgramKind::executable}, 0, {}), ElementsAre(script));
  EXPECT_THAT(command_of_rank({{"./tool", "-x"}, ProgramKind::script}, 0, {}),
              ElementsAre("python3", "-u", "./tool", "-x"));
  EXPECT_THAT(command_of_rank({{"pack.age", "-m"}, ProgramKind::module}, 0, {{"PYTHON_EXEC", "py"}}),
              ElementsAre("py", "-u", "-m", "pack.age", "-m"));
}

TEST(RankCommand, TellsAProgramItsLocalRank) {
  const RankProgram program{{"prog", "--log=${local_rank}.txt", "${local_rank}${local_rank}", "${rank} $local_rank"}};
  EXPECT_THAT(command_of_rank(program, 3, {}), ElementsAre("prog", "--log=3.txt", "33", "${rank} $local_rank"));
  EXPECT_THAT(command_of_rank({{"mod", "-x"}, ProgramKind::module, "local-rank"}, 3, {}),
              ElementsAre("python3", "-u", "-m", "mod", "--local-rank=3", "-x"));
}

TEST(StrayProcesses, ReadsTheParentWhateverTheProcessIsCalled) {
  EXPECT_EQ(parent_in_stat("12 (sh) S 7 12 12 0"), 7);
  EXPECT_EQ(parent_in_stat("12 (a) R 99 (b) S 8 12 12"), 8);
  EXPECT_EQ(parent_in_stat(""), 0);
  EXPECT_EQ(parent_in_stat("12 (sh) "), 0);
}

}  // namespace
}  // namespace lockstep::cluster
