// `lockstep train` from the outside: every way of starting it, and every way a user gets it wrong.
#include "cli/program.h"
#include "support/port.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>

namespace lockstep::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

nlohmann::json result_of(const std::filesystem::path& work_dir) {
  return nlohmann::json::parse(read_file(work_dir / "result.json"));
}

Environment by_hand(int rank, int size, const std::string& port) {
  return {{"RANK", std::to_string(rank)},
          {"WORLD_SIZE", std::to_string(size)},
          {"MASTER_ADDR", "127.0.0.1"},
          {"MASTER_PORT", port},
          {"LOCKSTEP_START_TIMEOUT_S", "60"}};
}

/// Starts two ranks as somebody would in two shells, and collects both.
std::array<Captured, 2> two_by_hand(const Words& program, const Environment& more = {}) {
  const auto port = free_port();
  std::array<Captured, 2> ran;
  ChildOptions options;
  options.arguments = program;
  options.out = options.err = ChildStream::discard;
  const TemporaryFolder folder;
  Environment first = by_hand(0, 2, port);
  Environment second = by_hand(1, 2, port);
  for (const auto& [name, value] : more) first[name] = second[name] = value;
  first["TORCHELASTIC_ERROR_FILE"] = folder.path() / "error.json";
  options.environment = environment_with(first);
  Child rank0(options);
  ran[1] = run_program(program, second);
  const auto end = rank0.wait_for(std::chrono::seconds(120));
  EXPECT_TRUE(end) << "rank 0 hangs";
  ran[0].status = end.value_or(ExitStatus{99, 0});
  ran[0].err = read_file(folder.path() / "error.json");
  return ran;
}

// ---- every way of starting it

TEST(TrainCommand, AloneLeavesItsResults) {
  const Workbench bench;
  const auto ran = run_program(bench.train());
  ASSERT_TRUE(ran.status.ok()) << ran.err;
  EXPECT_THAT(ran.out, StartsWith("rank 0 of 1"));
  EXPECT_THAT(ran.out, HasSubstr(" parameters on cifar10: "));
  EXPECT_THAT(ran.out, HasSubstr("\nepoch: 1 step: 4, loss is "));
  const auto result = result_of(bench.work_dir());
  for (const char* key : {"eval_accuracy", "eval_loss", "samples_per_s", "params_sha256", "world_size", "steps"}) {
    EXPECT_TRUE(result.contains(key)) << key;
  }
  EXPECT_EQ(result["world_size"], 1);
  EXPECT_EQ(result["steps"], 4);
  for (const char* file : {"metrics.jsonl", "loss.svg", "log/rank.0", "model.safetensors", "config.yaml"}) {
    EXPECT_TRUE(std::filesystem::exists(bench.work_dir() / file)) << file;
  }
}

// Whoever looks at the first line only gets the whole result.
TEST(TrainCommand, GoesOnWhenNobodyReadsItsConsole) {
  const Workbench bench;
  std::string words;
  for (const auto& word : bench.train()) words += " '" + word + "'";
  const auto ran = run_program({"/bin/bash", "-c", "set -o pipefail;" + words + " | head -1"});
  EXPECT_TRUE(ran.status.ok()) << ran.status.code << ran.err;
  EXPECT_THAT(ran.out, StartsWith("rank 0 of 1"));
  EXPECT_THAT(ran.err, HasSubstr("the console's output cannot be written (Broken pipe): training goes on"));
  EXPECT_EQ(result_of(bench.work_dir())["steps"], 4);
}

// Flags of MMEngine and MindOCR, and one that a platform adds.
TEST(TrainCommand, TakesTheFlagsOfOtherTrainers) {
  const Workbench bench;
  const Words words = {LOCKSTEP_BINARY,
                       "train",
                       "-c",
                       bench.config(),
                       "--cfg-options",
                       "train.steps=2",
                       "optimizer.lr=0.5",
                       "--work-dir",
                       (bench.path() / "theirs").string(),
                       "--local-rank",
                       "0",
                       "--resume",
                       "--launcher",
                       "none"};
  const auto ran = run_program(words);
  ASSERT_TRUE(ran.status.ok()) << ran.err;
  EXPECT_EQ(result_of(bench.path() / "theirs")["steps"], 2);
  auto with_platform = words;
  with_platform.insert(with_platform.end(), {"--data_url=s3://bucket", "--train_url", "s3://out"});
  const auto refused = run_program(with_platform);
  EXPECT_EQ(refused.status, (ExitStatus{2, 0}));
  EXPECT_THAT(refused.err, HasSubstr("--data_url=s3://bucket"));
  with_platform.emplace_back("--ignore-unknown");
  const auto ignored = run_program(with_platform);
  ASSERT_TRUE(ignored.status.ok()) << ignored.err;
  EXPECT_THAT(ignored.err, HasSubstr("warning: unknown and ignored (--ignore-unknown): --data_url"));
}

TEST(TrainCommand, IsTheSameRunHoweverItsRanksWereStarted) {
  const Workbench bench;
  const auto work_dir = [&](const std::string& name) { return bench.path() / name; };
  const auto train = [&](const std::string& name) {
    return bench.train({"system.work_dir=" + work_dir(name).string()});
  };

  const auto run = under_lockstep_run(2, train("run"));
  ASSERT_TRUE(run.status.ok()) << run.err;
  EXPECT_THAT(run.out, StartsWith("[rank 0] rank 0 of 2 (local 0 of 2)"));
  EXPECT_THAT(run.out, HasSubstr("started by lockstep run (RANK=0 "));
  for (const auto& captured : two_by_hand(train("hand"))) ASSERT_TRUE(captured.status.ok()) << captured.err;
  EXPECT_EQ(result_of(work_dir("run"))["world_size"], 2);
  const std::string hash = result_of(work_dir("run"))["params_sha256"];
  EXPECT_EQ(result_of(work_dir("hand"))["params_sha256"], hash);

  if (!LOCKSTEP_HAS_MPI) GTEST_SKIP() << "this build has no MPI: nothing was started under mpirun";
  const auto mpirun = under_mpirun(2, train("mpirun"));
  ASSERT_TRUE(mpirun.status.ok()) << mpirun.err;
  EXPECT_THAT(mpirun.out, HasSubstr("rank 0 of 2 (local 0 of 2)"));
  EXPECT_EQ(result_of(work_dir("mpirun"))["params_sha256"], hash);
}

// mpirun gives each rank a terminal of its own, wherever its output goes.
TEST(TrainCommand, PrintsPlainLinesUnderMpirun) {
  if (!LOCKSTEP_HAS_MPI) GTEST_SKIP() << "this build has no MPI";
  const Workbench bench;
  const auto ran = under_mpirun(2, bench.train(), {{"TERM", "xterm"}});
  ASSERT_TRUE(ran.status.ok()) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("epoch: 1 step: 1, loss is "));
  EXPECT_EQ((ran.out + ran.err).find('\x1b'), std::string::npos) << ran.out;
}

TEST(TrainCommand, PrintsAboutTenLossesAnEpoch) {
  const Workbench bench;
  const auto ran = run_program(bench.train({"data.batch_size=1"}));
  ASSERT_TRUE(ran.status.ok()) << ran.err;
  std::vector<std::string> steps;
  for (const auto& line : lines_of(ran.out)) {
    if (line.starts_with("epoch: ")) steps.push_back(line.substr(0, line.find(',')));
  }
  ASSERT_EQ(steps.size(), 11U) << ran.out;
  EXPECT_EQ(steps[0], "epoch: 1 step: 1");
  EXPECT_EQ(steps[1], "epoch: 1 step: 4");
  EXPECT_EQ(steps[10], "epoch: 1 step: 40");
}

TEST(TrainCommand, SaysWhichVariableChoseTheNetwork) {
  const Workbench bench;
  const auto ran = under_lockstep_run(2, bench.train({"parallel.backend=tcp"}), {{"NCCL_SOCKET_IFNAME", "=eth77,lo"}});
  ASSERT_TRUE(ran.status.ok()) << ran.err;
  EXPECT_THAT(lines_of(ran.out).at(0), HasSubstr("NCCL_SOCKET_IFNAME==eth77,lo: 127.0.0.1 of lo"));
  const auto wrong = under_lockstep_run(2, bench.train(), {{"NCCL_SOCKET_IFNAME", "eth77"}});
  EXPECT_EQ(wrong.status, (ExitStatus{2, 0}));
  EXPECT_THAT(wrong.err, HasSubstr("NCCL_SOCKET_IFNAME=\"eth77\" fits no network interface"));
}

TEST(TrainCommand, LockstepMeansThisBinaryUnderLockstepRun) {
  const Workbench bench;
  const auto ran = under_lockstep_run(2, {"lockstep", "train", "--config", bench.config(), "--dry-run"});
  EXPECT_TRUE(ran.status.ok()) << ran.err;
  EXPECT_THAT(ran.out, Not(HasSubstr("[rank 1]")));
}

TEST(TrainCommand, DryRunPrintsConfigurationAndModelAndTouchesNothing) {
  const Workbench bench;
  const auto ran = run_program(bench.train({"--dry-run", "train.epochs=7"}));
  ASSERT_TRUE(ran.status.ok()) << ran.err;
  for (const char* words : {"rank 0 of 1", "  epochs: 7\n", "hidden: [16]", "fc1.weight", "49,338"})
    EXPECT_THAT(ran.out, HasSubstr(words));
  EXPECT_FALSE(std::filesystem::exists(bench.work_dir()));
}

TEST(TrainCommand, DryRunSaysThatAStemShrinksPicturesToOnePixel) {
  const auto dry = [](const Words& more) {
    Words words = {"train", "--config", LOCKSTEP_SOURCE_DIR "/configs/resnet18_cifar10.yaml", "--dry-run"};
    words.insert(words.end(), more.begin(), more.end());
    const auto ran = lockstep(words);
    EXPECT_TRUE(ran.status.ok()) << ran.err;
    return ran.out;
  };
  const std::string note = "# note: resnet18 with the stem imagenet makes a picture of 32x32 one pixel";
  EXPECT_THAT(dry({"data.root=none"}), HasSubstr(note));
  const auto out = dry({"data.root=none", "model.stem=cifar"});
  EXPECT_THAT(out, testing::AllOf(HasSubstr("[64, 3, 3, 3]"), Not(HasSubstr("# note"))));
}

TEST(TrainCommand, FilesBuildOnOthers) {
  const Workbench bench;
  const auto folder = bench.path() / "runs";
  std::filesystem::create_directory(folder);
  write_file(folder / "wide.yaml", "base: ../run.yaml\nmodel: {hidden: [32]}\ntrain: {epochs: 1}\n");
  const auto ran = lockstep({"train", "--config", (folder / "wide.yaml").string(), "optimizer.lr=0.03"});
  ASSERT_TRUE(ran.status.ok()) << ran.err;
  const auto merged = read_file(bench.work_dir() / "config.yaml");
  for (const char* words : {"hidden: [32]", "epochs: 1\n", "lr: 0.03", "name: mlp"})
    EXPECT_THAT(merged, HasSubstr(words));
  // The merged whole stands alone.
  EXPECT_TRUE(lockstep({"train", "--config", (bench.work_dir() / "config.yaml").string(), "--dry-run"}).status.ok());

  const auto dry = lockstep({"train", "--config", (folder / "wide.yaml").string(), "--dry-run", "optimizer.lr=0.03"});
  const auto base = bench.config(), wide = (folder / "wide.yaml").string();
  for (const auto& words :
       {"# configuration: " + base + ", then " + wide + "\n", "# " + wide + " gives model.hidden, train.epochs\n",
        std::string("# the command line gives optimizer.lr\n")}) {
    EXPECT_THAT(dry.out, HasSubstr(words));
  }
  write_file(folder / "wide.yaml", "base: ../run.yaml\nmodel: {hiden: [32]}\n");
  EXPECT_THAT(lockstep({"train", "--config", wide}).err, HasSubstr("wide.yaml:2"));
  write_file(bench.config(), read_file(bench.config()) + "\nloss: {nam: x}\n");
  write_file(folder / "wide.yaml", "base: ../run.yaml\n");
  EXPECT_THAT(lockstep({"train", "--config", wide}).err, HasSubstr(base + ":"));
  write_file(folder / "wide.yaml", "base: wide.yaml\n");
  const auto cycle = lockstep({"train", "--config", wide});
  EXPECT_EQ(cycle.status.code, 2);
  EXPECT_THAT(cycle.err, HasSubstr(wide + " -> " + wide));
}

TEST(TrainCommand, DryRunExplainsThePlanOnce) {
  const Workbench bench;
  const auto ran =
      under_lockstep_run(2, {"lockstep", "train", "--config", bench.config(), "parallel.mode=auto", "--dry-run"});
  ASSERT_TRUE(ran.status.ok()) << ran.err;
  for (const char* words : {"Plan for 2 devices", "A step takes", "data_parallel", "megatron", "second best placement"})
    EXPECT_THAT(ran.out, HasSubstr(words));
  EXPECT_EQ(ran.out.find("Plan for 2 devices"), ran.out.rfind("Plan for 2 devices"));
  EXPECT_FALSE(std::filesystem::exists(bench.work_dir()));
}

TEST(TrainCommand, ListsItsKeys) {
  const auto ran = lockstep({"train", "--help-keys"});
  EXPECT_TRUE(ran.status.ok());
  for (const char* words : {"optimizer.lr (number", "data.root (text, required)", "momentum"})
    EXPECT_THAT(ran.out, HasSubstr(words));
}

// ---- what users get wrong

TEST(TrainCommand, NamesFileLineAndFixOfABadConfiguration) {
  const Workbench bench;
  const std::string good = read_file(bench.config());
  const auto expect_refused = [&](const std::string& from, const std::string& to, std::vector<std::string> words) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    write_file(bench.config(), text);
    const auto ran = run_program(bench.train());
    EXPECT_EQ(ran.status, (ExitStatus{2, 0})) << to;
    EXPECT_THAT(ran.err, StartsWith("lockstep: error: "));
    for (const auto& word : words) EXPECT_THAT(ran.err, HasSubstr(word));
    EXPECT_EQ(ran.out, "");
  };
  expect_refused("  work_dir:", "\twork_dir:", {"run.yaml:2", "tab"});
  expect_refused("lr: 0.05", "lr: [1, 2]", {"optimizer.lr", "a list", "run.yaml:18"});
  expect_refused("momentum: 0.9", "momentun: 0.9", {"momentun", "did you mean 'momentum'", "run.yaml:19"});
  expect_refused("train:\n", "trian:\n", {"trian", "did you mean 'train'"});
  expect_refused("lr: 0.05", "lr: -1", {"optimizer.lr", "-1"});
  expect_refused("name: mlp", "name: mlpp", {"model.name", "mlpp"});
}

TEST(TrainCommand, NamesABadOverride) {
  const Workbench bench;
  const auto expect_refused = [&](const std::string& override_text, const std::string& words) {
    const auto ran = run_program(bench.train({override_text}));
    EXPECT_EQ(ran.status, (ExitStatus{2, 0})) << override_text;
    EXPECT_THAT(ran.err, AllOf(HasSubstr(words), HasSubstr(override_text)));
  };
  expect_refused("train.epochs=two", "train.epochs");
  expect_refused("train.epoch=2", "did you mean");
  expect_refused("epochs", "epochs");
}

TEST(TrainCommand, SaysWhichLauncherVariablesAreMissing) {
  const Workbench bench;
  const auto half_set = run_program(bench.train(), {{"RANK", "1"}});
  EXPECT_EQ(half_set.status, (ExitStatus{2, 0}));
  EXPECT_THAT(half_set.err, AllOf(HasSubstr("RANK"), HasSubstr("WORLD_SIZE")));
  const auto unknown = run_program(bench.train({"--launcher", "pytorhc"}));
  EXPECT_EQ(unknown.status, (ExitStatus{2, 0}));
  EXPECT_THAT(unknown.err, HasSubstr("did you mean 'pytorch'"));
  const auto absent = run_program(bench.train({"--launcher", "mpi"}));
  EXPECT_EQ(absent.status, (ExitStatus{2, 0}));
  EXPECT_THAT(absent.err, HasSubstr("mpirun"));
}

TEST(TrainCommand, SaysWhatIsWrongWithFiles) {
  const Workbench bench;
  const auto expect_failed = [&](const Words& words, const std::vector<std::string>& reasons) {
    const auto ran = run_program(bench.train(words));
    EXPECT_FALSE(ran.status.ok()) << words[0];
    EXPECT_THAT(ran.err, StartsWith("lockstep: error: "));
    for (const auto& reason : reasons) EXPECT_THAT(ran.err, HasSubstr(reason));
  };
  expect_failed({"data.root=/no/such/data"}, {"/no/such/data"});
  write_file(bench.path() / "file", "");
  expect_failed({"system.work_dir=" + (bench.path() / "file" / "out").string()}, {"file/out"});
  expect_failed({"checkpoint.folder=" + (bench.path() / "file").string()}, {(bench.path() / "file").string()});
  std::filesystem::resize_file(bench.data() / "data_batch_3.bin", 1000);
  expect_failed({"data.workers=0"}, {"data_batch_3.bin", "1000"});
  const auto missing = lockstep({"train", "--config", "/no/such/run.yaml"});
  EXPECT_FALSE(missing.status.ok());
  EXPECT_THAT(missing.err, HasSubstr("/no/such/run.yaml"));
}

TEST(TrainCommand, SaysThatThePortIsInUse) {
  const Workbench bench;
  const auto port = reserve_port();
  const auto taken = listen_on(port);
  ASSERT_GE(taken.get(), 0);
  const auto ran = run_program(bench.train(), by_hand(0, 2, std::to_string(port)));
  EXPECT_EQ(ran.status, (ExitStatus{1, 0}));
  EXPECT_THAT(ran.err, AllOf(HasSubstr(std::to_string(port)), HasSubstr("in use")));
}

TEST(TrainCommand, NamesTheRankThatNeverCame) {
  const Workbench bench;
  const auto port = free_port();
  Environment alone = by_hand(0, 2, port);
  alone.insert_or_assign("LOCKSTEP_START_TIMEOUT_S", std::string("1"));
  const auto ran = run_program(bench.train(), alone);
  EXPECT_EQ(ran.status, (ExitStatus{1, 0}));
  EXPECT_THAT(ran.err, AllOf(HasSubstr("rank 1"), HasSubstr("LOCKSTEP_START_TIMEOUT_S")));
}

// ---- a rank that fails

const std::string kOrdered = "LOCKSTEP_FAULT ordered rank 1 to fail in step 2";
const Environment kThrow = {{"LOCKSTEP_FAULT", "rank=1,step=2,action=throw"}};

TEST(TrainCommand, UnderLockstepRunTheFirstReasonIsReported) {
  const Workbench bench;
  const auto ran = under_lockstep_run(2, bench.train(), kThrow);
  EXPECT_EQ(ran.status, (ExitStatus{1, 0}));
  EXPECT_THAT(ran.err, Not(HasSubstr("lockstep: error: "))) << "the launcher says it, once";
  EXPECT_THAT(ran.err, HasSubstr("lockstep run: rank 1"));
  EXPECT_THAT(ran.err, HasSubstr("\n  reason: [fault] " + kOrdered + "\n  rank 0"));
  EXPECT_FALSE(std::filesystem::exists(bench.work_dir() / "result.json"));
}

TEST(TrainCommand, UnderLockstepRunAKilledRankIsReported) {
  const Workbench bench;
  auto words = bench.train();
  words.insert(words.begin(), {"--max-restarts", "0"});  // else it would be replaced
  const auto ran = under_lockstep_run(2, words, {{"LOCKSTEP_FAULT", "rank=1,step=2,action=kill"}});
  EXPECT_EQ(ran.status, (ExitStatus{137, 0}));
  EXPECT_THAT(ran.err, AllOf(HasSubstr("lockstep run: rank 1"), HasSubstr("signal 9 (SIGKILL)")));
}

TEST(TrainCommand, UnderLockstepRunARankThatHangsSaysWhereItIs) {
  const Workbench bench;
  Words words = bench.train();
  words.insert(words.begin(), {LOCKSTEP_BINARY, "run", "--nproc-per-node", "2", "--grace", "4", "--max-restarts", "0"});
  const auto ran = run_program(words, {{"LOCKSTEP_FAULT", "rank=1,step=2,action=loop"}, {"LOCKSTEP_TIMEOUT_S", "6"}});
  EXPECT_FALSE(ran.status.ok());
  EXPECT_THAT(ran.err, AllOf(HasSubstr("did not take part in it in time"), HasSubstr("waiting for rank 1 to end")));
  EXPECT_THAT(ran.err, AllOf(HasSubstr("this process received a request to end; its stack is:"),
                             HasSubstr("8lockstep5train7Session10train_step")));
}

TEST(TrainCommand, UnderMpirunTheFirstReasonIsReported) {
  if (!LOCKSTEP_HAS_MPI) GTEST_SKIP() << "this build has no MPI";
  const Workbench bench;
  const auto ran = under_mpirun(2, bench.train(), kThrow);
  EXPECT_FALSE(ran.status.ok());
  EXPECT_THAT(ran.err, HasSubstr("lockstep: error: [fault] " + kOrdered));
}

TEST(TrainCommand, StartedByHandTheOtherRanksSayTheFirstReason) {
  const Workbench bench;
  const auto ran = two_by_hand(bench.train(), kThrow);
  EXPECT_EQ(ran[1].status, (ExitStatus{1, 0}));
  EXPECT_THAT(ran[1].err, HasSubstr(kOrdered));
  EXPECT_EQ(ran[0].status, (ExitStatus{1, 0}));
  EXPECT_THAT(ran[0].err, AllOf(HasSubstr(kOrdered), HasSubstr("peer_lost")));
}

TEST(TrainCommand, RefusesAnUnreadableFaultOrder) {
  const Workbench bench;
  for (const char* order :
       {"rank=1", "rank=1,step=0,action=kill", "rank=1,step=2,action=explode", "rank=1,rank=1,step=2"}) {
    const auto ran = run_program(bench.train(), {{"LOCKSTEP_FAULT", order}});
    EXPECT_EQ(ran.status, (ExitStatus{2, 0})) << order;
    EXPECT_THAT(ran.err, AllOf(HasSubstr("LOCKSTEP_FAULT"), HasSubstr(order)));
  }
}

}  // namespace
}  // namespace lockstep::test
