// `lockstep run` and `lockstep launch` with the flags of torchrun about programs, logs and the console.
#include "cli/rank_program.h"
#include "cli/two_nodes.h"
#include "support/port.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace lockstep::test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::MatchesRegex;
using testing::Not;
using testing::StartsWith;
using testing::UnorderedElementsAre;

Captured run_with(Words flags, const Words& program, const Environment& more = {}) {
  flags.insert(flags.begin(), "run");
  flags.insert(flags.end(), program.begin(), program.end());
  return lockstep(std::move(flags), more);
}

const Words kSpeak = rank_program({"0:print=out 0", "0:error=err 0", "1:print=out 1", "1:error=err 1"});

/// The one folder of a job in `log_dir`.
std::filesystem::path job_in(const std::filesystem::path& log_dir) {
  std::vector<std::filesystem::path> found;
  for (const auto& entry : std::filesystem::directory_iterator(log_dir)) found.push_back(entry.path());
  EXPECT_EQ(found.size(), 1U) << log_dir;
  return found.empty() ? log_dir : found.front();
}

TEST(RunOutput, LogsLieWhereTorchrunPutsThem) {
  const TemporaryFolder folder;
  const auto ran =
      run_with({"--nproc_per_node=2", "--log_dir", folder.path() / "logs", "--rdzv_id=job7", "-t", "3"}, kSpeak);
  EXPECT_TRUE(ran.status.ok()) << ran.err;
  EXPECT_THAT(lines_of(ran.out), UnorderedElementsAre("[rank 0] out 0", "[rank 1] out 1"));
  EXPECT_THAT(lines_of(ran.err), UnorderedElementsAre("[rank 0] err 0", "[rank 1] err 1"));
  const auto job = job_in(folder.path() / "logs");
  EXPECT_THAT(job.filename().string(), StartsWith("job7_"));
  for (const std::string rank : {"0", "1"}) {
    EXPECT_EQ(read_file(job / "attempt_0" / rank / "stdout.log"), "out " + rank + "\n");
    EXPECT_EQ(read_file(job / "attempt_0" / rank / "stderr.log"), "err " + rank + "\n");
  }
}

TEST(RunOutput, RedirectsLeaveTheConsole) {
  const TemporaryFolder folder;
  const auto ran = run_with({"--nproc-per-node", "2", "--log-dir=" + folder.path().string(), "-r", "0:3,1:1"}, kSpeak);
  EXPECT_TRUE(ran.status.ok()) << ran.err;
  EXPECT_THAT(ran.out, IsEmpty());
  EXPECT_THAT(lines_of(ran.err), ElementsAre("[rank 1] err 1"));
  const auto attempt = job_in(folder.path()) / "attempt_0";
  EXPECT_EQ(read_file(attempt / "0" / "stderr.log"), "err 0\n");
  EXPECT_EQ(read_file(attempt / "1" / "stdout.log"), "out 1\n");
  EXPECT_FALSE(std::filesystem::exists(attempt / "1" / "stderr.log"));
}

TEST(RunOutput, TheFilterHidesRanksFromTheConsoleOnly) {
  const TemporaryFolder folder;
  const auto ran = run_with({"--local_ranks_filter", "1", "--tee=1"}, kSpeak,
                            {{"PET_NPROC_PER_NODE", "2"}, {"PET_LOG_DIR", folder.path().string()}});
  EXPECT_TRUE(ran.status.ok()) << ran.err;
  EXPECT_EQ(ran.out, "[rank 1] out 1\n");
  EXPECT_EQ(ran.err, "[rank 1] err 1\n");
  EXPECT_EQ(read_file(job_in(folder.path()) / "attempt_0" / "0" / "stdout.log"), "out 0\n");
}

TEST(RunOutput, AFailedJobSaysWhereItsLogsAreAndWhyThoughTheConsoleWasSilent) {
  const TemporaryFolder folder;
  const auto ran = run_with({"--log_dir", folder.path(), "--redirects=3"},
                            rank_program({"error=last words", "note=disk full", "exit=3"}));
  EXPECT_EQ(ran.status, (ExitStatus{3, 0}));
  const auto job = job_in(folder.path());
  EXPECT_THAT(ran.err, AllOf(HasSubstr("reason: [test] disk full\n"), HasSubstr("  logs: " + job.string() + "\n")));
  EXPECT_THAT(read_file(job / "attempt_0" / "0" / "error.json"), HasSubstr("disk full"));
}

TEST(RunOutput, LogsWithoutAFolderGoToATemporaryOneThatStays) {
  const TemporaryFolder folder;
  const auto ran = run_with({"--redirects", "1"}, kSpeak, {{"TMPDIR", folder.path().string()}});
  EXPECT_TRUE(ran.status.ok()) << ran.err;
  const auto job = job_in(job_in(folder.path()));
  EXPECT_THAT(ran.err, HasSubstr("lockstep run: logs: " + job.string() + "\n"));
  EXPECT_EQ(read_file(job / "attempt_0" / "0" / "stdout.log"), "out 0\n");
}

TEST(RunOutput, LogsOfAJobWithoutANameLieWhereTheDocumentationSays) {
  const TemporaryFolder folder;
  const auto ran = run_with({"--log_dir", folder.path(), "-t", "3"}, kSpeak);
  EXPECT_TRUE(ran.status.ok()) << ran.err;
  const auto job = job_in(folder.path());
  EXPECT_THAT(job.filename().string(), MatchesRegex("none_[A-Za-z0-9]+"));
  EXPECT_EQ(read_file(job / "attempt_0" / "0" / "stdout.log"), "out 0\n");
}

TEST(RunOutput, AJobThatFailsLeavesNothingInTheTemporaryFolder) {
  for (const Words& flags : {Words{}, Words{"--start-method", "spawn"}, Words{"--max-restarts", "1"}}) {
    const TemporaryFolder folder;
    for (const Words& program : {rank_program({"1:note=disk full", "1:exit=5", "sleep_ms=60000"}),
                                 rank_program({"0:kill_self=9", "sleep_ms=60000"}), Words{"no_such_program"},
                                 Words{LOCKSTEP_BINARY, "train", "--config", "/no/such.yaml"}}) {
      Words words = {"--nproc-per-node", "2"};
      words.insert(words.end(), flags.begin(), flags.end());
      const auto ran = run_with(words, program, {{"TMPDIR", folder.path().string()}});
      EXPECT_FALSE(ran.status.ok());
      EXPECT_TRUE(std::filesystem::is_empty(folder.path())) << program.back() << ": " << ran.err;
    }
  }
}

TEST(RunOutput, TheNullDeviceMeansNoFiles) {
  const TemporaryFolder folder;
  const auto ran =
      run_with({"--log_dir=/dev/null", "--tee", "1", "--redirects", "2"},
               rank_program({"env=TORCHELASTIC_ERROR_FILE", "error=x"}), {{"TMPDIR", folder.path().string()}});
  EXPECT_TRUE(ran.status.ok()) << ran.err;
  EXPECT_EQ(ran.out, "[rank 0] TORCHELASTIC_ERROR_FILE=\n");
  EXPECT_EQ(ran.err, "");
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(RunOutput, ALogThatCannotGrowCostsNothingButItself) {
  const TemporaryFolder folder;
  // One block of 1024 bytes is the largest file that anybody may write.
  Words words = {"bash",
                 "-c",
                 "ulimit -f 1; exec \"$@\"",
                 "bash",
                 LOCKSTEP_BINARY,
                 "run",
                 "--nproc-per-node",
                 "2",
                 "--log-dir",
                 folder.path(),
                 "--tee",
                 "1",
                 "--redirects",
                 "2"};
  for (const auto& word : rank_program({"lines=1000", "fill_error=3000", "print=end"})) words.push_back(word);
  const auto ran = run_program(words);
  EXPECT_TRUE(ran.status.ok()) << ran.err;
  EXPECT_EQ(lines_of(ran.out).size(), 2002U);
  EXPECT_THAT(ran.out, AllOf(HasSubstr("[rank 0] end\n"), HasSubstr("[rank 1] end\n")));
  std::size_t warnings = 0;
  for (const auto& line : lines_of(ran.err)) warnings += line.starts_with("lockstep run: cannot write ") ? 1 : 0;
  EXPECT_EQ(warnings, 1U) << ran.err;
  EXPECT_THAT(ran.err, AllOf(HasSubstr("File too large"), HasSubstr("[rank 1] xxxx")));
  const auto attempt = job_in(folder.path()) / "attempt_0";
  EXPECT_THAT(read_file(attempt / "0" / "stdout.log"), StartsWith("line 0\nline 1\n"));
}

TEST(RunOutput, TheRoleIsInTheEnvironmentAndInThePrefix) {
  EXPECT_EQ(run_with({"--role", "trainer"}, rank_program({"env=ROLE_NAME"})).out,
            "[trainer rank 0] ROLE_NAME=trainer\n");
  EXPECT_EQ(run_with({"--role=x"}, rank_program({"print=a"}),
                     {{"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE", "${role_name}/${rank}/${local_rank}: "}})
                .out,
            "x/0/0: a\n");
}

TEST(RunOutput, ArgumentsKnowTheirLocalRank) {
  const auto ran = run_with({"--nproc=2"}, rank_program({"print=I am ${local_rank}"}));
  EXPECT_THAT(lines_of(ran.out), UnorderedElementsAre("[rank 0] I am 0", "[rank 1] I am 1"));
}

TEST(RunOutput, OnlyTheNamedSignalsEndTheJobInOrder) {
  const auto ran =
      run_with({"--signals-to-handle", "SIGUSR1,SIGTERM"},
               rank_program({"env=TORCHELASTIC_SIGNALS_TO_HANDLE", "exit7_on=10", "kill_parent=10", "sleep_ms=60000"}));
  EXPECT_EQ(ran.status, (ExitStatus{7, 0})) << ran.err;
  EXPECT_EQ(ran.out, "[rank 0] TORCHELASTIC_SIGNALS_TO_HANDLE=SIGUSR1,SIGTERM\n");
  EXPECT_THAT(ran.err, HasSubstr("ended by SIGUSR1"));
}

TEST(RunOutput, TheRootCauseReachesTheOuterLauncher) {
  const TemporaryFolder folder;
  const auto error_file = folder.path() / "outer.json";
  Words inner = {LOCKSTEP_BINARY, "run", "--nproc-per-node", "2"};
  for (const auto& word : rank_program({"1:note=disk full", "1:exit=5", "sleep_ms=60000"})) inner.push_back(word);
  const auto ran = run_with({}, inner, {{"TORCHELASTIC_ERROR_FILE", error_file.string()}});
  EXPECT_EQ(ran.status, (ExitStatus{5, 0}));
  EXPECT_THAT(ran.err, HasSubstr("reason: [test] disk full"));
  const auto message = nlohmann::json::parse(read_file(error_file))["message"];
  EXPECT_EQ(message["message"], "[test] disk full");
  EXPECT_EQ(message["errorCode"], 5);
}

// ---- Python

/// A small package: `python3 -m parrot.loud` prints what it was given and who it is.
class PythonPackage {
 public:
  PythonPackage() {
    std::filesystem::create_directory(folder_.path() / "parrot");
    write_file(folder_.path() / "parrot" / "__init__.py", "");
    write_file(folder_.path() / "parrot" / "loud.py", kText);
    write_file(script(), kText);
  }

  std::string script() const { return folder_.path() / "script.py"; }
  Environment environment() const {
    return {
        {"PYTHONPATH", folder_.path().string()}, {"PYTHON_EXEC", LOCKSTEP_PYTHON}, {"PYTHONDONTWRITEBYTECODE", "1"}};
  }

 private:
  static constexpr const char* kText =
      "import os, sys\n"
      "if __name__ == '__main__':\n"
      "    print(__package__, os.environ['LOCAL_RANK'], *sys.argv[1:])\n";
  TemporaryFolder folder_;
};

TEST(RunPython, RunsAModule) {
  const PythonPackage python;
  const auto ran = run_with({"--nproc_per_node", "2", "-m"}, {"parrot.loud", "-m", "x"}, python.environment());
  EXPECT_TRUE(ran.status.ok()) << ran.err;
  EXPECT_THAT(lines_of(ran.out), UnorderedElementsAre("[rank 0] parrot 0 -m x", "[rank 1] parrot 1 -m x"));
  auto by_variable = python.environment();
  by_variable["PET_MODULE"] = "1";
  EXPECT_EQ(run_with({}, {"parrot.loud"}, by_variable).out, "[rank 0] parrot 0\n");
}

TEST(RunPython, RunsAScript) {
  const PythonPackage python;
  EXPECT_EQ(run_with({}, {python.script(), "x"}, python.environment()).out, "[rank 0] None 0 x\n");
  EXPECT_EQ(run_with({"--run-path"}, {python.script()}, python.environment()).out, "[rank 0] None 0\n");
  const auto ran = run_with({"--no-python"}, {python.script()}, python.environment());
  EXPECT_EQ(ran.status, (ExitStatus{2, 0}));
  EXPECT_THAT(ran.err, HasSubstr("Permission denied"));
}

TEST(LaunchCommand, PassesTheLocalRankFirst) {
  const PythonPackage python;
  const auto launched = [&](Words words) {
    words.insert(words.begin(), {"launch", "--nproc_per_node", "2"});
    words.insert(words.end(), {python.script(), "--epochs", "3"});
    return lines_of(lockstep(words, python.environment()).out);
  };
  EXPECT_THAT(launched({}), UnorderedElementsAre("[rank 0] None 0 --local-rank=0 --epochs 3",
                                                 "[rank 1] None 1 --local-rank=1 --epochs 3"));
  EXPECT_THAT(
      launched({"--local_rank_name", "local_rank"}),
      UnorderedElementsAre("[rank 0] None 0 --local_rank=0 --epochs 3", "[rank 1] None 1 --local_rank=1 --epochs 3"));
  EXPECT_THAT(launched({"--use_env"}),
              UnorderedElementsAre("[rank 0] None 0 --epochs 3", "[rank 1] None 1 --epochs 3"));
}

TEST(LaunchCommand, GivesItToPythonAlone) {
  const TemporaryFolder folder;
  const auto script = folder.path() / "script";
  write_file(script, "#!/usr/bin/env python3\nimport sys\nprint(sys.argv[1:])\n");
  std::filesystem::permissions(script, std::filesystem::perms::owner_all);
  EXPECT_EQ(lockstep({"launch", script, "x"}).out, "[rank 0] ['--local-rank=0', 'x']\n");

  const Words speak = {"sh", "-c", "echo LOCAL_RANK=$LOCAL_RANK $0", "x"};
  const auto launched = [&](Words words) {
    words.insert(words.begin(), "launch");
    words.insert(words.end(), speak.begin(), speak.end());
    return lockstep(words);
  };
  const auto plain = launched({});
  EXPECT_EQ(plain.out, "[rank 0] LOCAL_RANK=0 x\n");
  EXPECT_THAT(plain.err, AllOf(HasSubstr("sh is not Python and gets no --local-rank=N"), HasSubstr("--use_env")));
  EXPECT_EQ(launched({"--use_env"}).err, "");
  // Asked for by its name, it is passed, for better or worse.
  EXPECT_FALSE(launched({"--local_rank_name", "local_rank"}).status.ok());
}

TEST(LaunchCommand, StartsLockstepItself) {
  const Workbench bench;
  const auto ran = lockstep({"launch", "--nproc_per_node", "2", "lockstep", "train", "--config", bench.config()},
                            {{"LOCKSTEP_VERBOSE", "0"}});
  EXPECT_TRUE(ran.status.ok()) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("started by lockstep run; backend "));
  EXPECT_THAT(ran.err, Not(HasSubstr("--local-rank")));
  EXPECT_TRUE(std::filesystem::exists(bench.work_dir() / "result.json"));
}

// ---- under other launchers

TEST(RunUnderOthers, IsRefusedWhereEachCopyWouldBeAJobOfItsOwn) {
  if (!LOCKSTEP_HAS_MPI) GTEST_SKIP() << "this build has no MPI";
  Words words = {LOCKSTEP_BINARY, "run", "--nproc-per-node", "2"};
  for (const auto& word : rank_program({"print=a rank"})) words.push_back(word);
  const auto refused = under_mpirun(2, words);
  EXPECT_EQ(refused.status, (ExitStatus{2, 0})) << refused.err;
  EXPECT_THAT(refused.err, AllOf(HasSubstr("is process 0 of 2 of "), HasSubstr("a job of its own"),
                                 HasSubstr("--nnodes 2"), HasSubstr("--standalone")));
  EXPECT_THAT(refused.out, Not(HasSubstr("a rank")));

  words.insert(words.begin() + 2, "--standalone");
  const auto meant = under_mpirun(2, words);
  EXPECT_TRUE(meant.status.ok()) << meant.err;
  EXPECT_THAT(lines_of(meant.out), testing::UnorderedElementsAre("[rank 0] a rank", "[rank 0] a rank",
                                                                 "[rank 1] a rank", "[rank 1] a rank"));
}

TEST(RunUnderOthers, OneLauncherOnEachNodeIsOneJob) {
  if (!LOCKSTEP_HAS_MPI) GTEST_SKIP() << "this build has no MPI";
  const auto line = fmt::format(
      "exec {} run --nnodes 2 --node-rank $OMPI_COMM_WORLD_RANK$PMI_RANK --master-addr 127.0.0.1 --master-port {} {} "
      "env=WORLD_SIZE",
      LOCKSTEP_BINARY, free_port(), LOCKSTEP_RANK_PROGRAM);
  const auto ran = under_mpirun(2, {"sh", "-c", line});
  EXPECT_TRUE(ran.status.ok()) << ran.err;
  EXPECT_THAT(ran.out, AllOf(HasSubstr("[rank 0] WORLD_SIZE=2"), HasSubstr("[rank 1] WORLD_SIZE=2")));
}

TEST(RunUnderOthers, IsSaidUnderSrunAndTorchrun) {
  const Environment step = {{"SLURM_JOB_ID", "3"}, {"SLURM_STEP_ID", "0"},        {"SLURM_PROCID", "1"},
                            {"SLURM_NTASKS", "2"}, {"SLURM_STEP_NUM_TASKS", "2"}, {"SLURM_LOCALID", "1"},
                            {"SLURM_NODEID", "0"}, {"SLURM_STEP_NODELIST", "n1"}, {"SLURM_STEP_TASKS_PER_NODE", "2"}};
  const auto refused = run_with({}, rank_program({"print=a rank"}), step);
  EXPECT_EQ(refused.status, (ExitStatus{2, 0}));
  EXPECT_THAT(refused.err, AllOf(HasSubstr("process 1 of 2 of slurm"), HasSubstr("--standalone")));
  auto one_task = step;
  for (const auto* name : {"SLURM_NTASKS", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_TASKS_PER_NODE"}) one_task[name] = "1";
  one_task["SLURM_PROCID"] = one_task["SLURM_LOCALID"] = "0";
  EXPECT_TRUE(run_with({}, rank_program({"print=a rank"}), one_task).status.ok());

  // A launcher that is a rank of another passes on its error file, so that it may be meant.
  Words inner = {LOCKSTEP_BINARY, "run"};
  for (const auto& word : rank_program({"print=a rank"})) inner.push_back(word);
  const auto nested = run_with({"--nproc-per-node", "2"}, inner);
  EXPECT_TRUE(nested.status.ok()) << nested.err;
  EXPECT_THAT(nested.err, AllOf(HasSubstr("is process 0 of 2 of pytorch"), HasSubstr("--standalone")));
}

// ---- what is said about mistakes

TEST(RunCommandLine, ABareCommandOfLockstepIsExplained) {
  const auto ran = run_with({"--nproc-per-node", "2"}, {"train", "--config", "run.yaml"});
  EXPECT_EQ(ran.status, (ExitStatus{2, 0}));
  EXPECT_THAT(ran.err, HasSubstr("did you mean 'lockstep run ... lockstep train ...'?"));
}

TEST(RunCommandLine, FilesThatAreMissingAreTheUsersMistake) {
  const TemporaryFolder folder;
  const auto expect_usage = [&](const Words& words, const std::string& name, const Environment& more = {}) {
    const auto ran = run_program(words, more);
    EXPECT_EQ(ran.status, (ExitStatus{2, 0})) << name << ": " << ran.err;
    EXPECT_THAT(ran.err, HasSubstr(name));
  };
  const std::string program = LOCKSTEP_BINARY;
  expect_usage({program, "train", "--config", "/no/such.yaml"}, "/no/such.yaml");
  expect_usage({program, "train", "--config", folder.path()}, "is a folder");
  expect_usage({program, "run", "lockstep", "train", "--config", "/no/such.yaml"}, "/no/such.yaml");
  expect_usage({program, "run", "no_such_program"}, "no_such_program");
  expect_usage({program, "run", "./no_such_program"}, "./no_such_program");
  expect_usage({program, "run", "no_such_script.py"}, "no_such_script.py");
  expect_usage({program, "plan", "--config", "/no/such.yaml", "--cluster", "/no/such.yaml"}, "/no/such.yaml");
  write_file(folder.path() / "here", "");
  const auto here = run_in(folder.path(), {program, "run", "here"});
  EXPECT_EQ(here.status, (ExitStatus{2, 0}));
  EXPECT_THAT(here.err, HasSubstr("the file of that name in this folder is ./here"));
}

TEST(RunFlags, MistakesAreUsageErrorsThatNameTheirSource) {
  const auto expect_error = [](const Words& flags, const Environment& environment, const std::string& words) {
    const auto ran = run_with(flags, rank_program({"print=started"}), environment);
    EXPECT_EQ(ran.status, (ExitStatus{2, 0})) << words << ": " << ran.err;
    EXPECT_THAT(ran.err, AllOf(StartsWith("lockstep: error: "), HasSubstr(words)));
    EXPECT_EQ(ran.out, "");
  };
  expect_error({"--tee", "4"}, {}, "--tee '4' must be 0 (none)");
  expect_error({}, {{"PET_REDIRECTS", "x"}}, "(from PET_REDIRECTS=x)");
  expect_error({}, {{"PET_NODE_RANK", "x"}}, "(from PET_NODE_RANK=x)");
  expect_error({}, {{"PET_NPROC_PER_NODE", "many"}}, "(from PET_NPROC_PER_NODE=many)");
  expect_error({}, {{"PET_NO_PYTHON", "yes"}}, "PET_NO_PYTHON=yes must be an integer");
  expect_error({"--log_dir", LOCKSTEP_RANK_PROGRAM}, {}, "is a file");
  expect_error({"--numa-binding=node"}, {}, "--numa_binding node is not part of this version");
  expect_error({"--no"}, {}, "'--no' could be");
  expect_error({"-m", "--no-python"}, {}, "contradict");
}

TEST(RunFlags, HelpShowsOneSpellingInGroups) {
  for (const char* command : {"run", "launch"}) {
    const auto help = lockstep({command, "--help"}, {{"PET_NODE_RANK", "x"}});
    EXPECT_TRUE(help.status.ok());
    EXPECT_THAT(help.out, AllOf(HasSubstr("\nOutput:\n"), HasSubstr("--log-dir DIR"), HasSubstr("PET_NPROC_PER_NODE"),
                                HasSubstr("-r, --redirects"), Not(HasSubstr("--log_dir"))));
    EXPECT_THAT(help.out, HasSubstr(fmt::format("Usage: lockstep {} [OPTIONS] PROGRAM", command)));
  }
}

}  // namespace
}  // namespace lockstep::test
