// What users give `lockstep train` by mistake: other programs' files and keys, numbers without sense, and damaged or
// endless files. Each is answered with one error that says what to do.
#include "cli/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr std::size_t kLongestError = 4000;

/// The run ends with `code`, and with an error that has all `words` and is not a page long.
void expect_refused(const Captured& ran, int code, const std::vector<std::string>& words) {
  EXPECT_EQ(ran.status, (ExitStatus{code, 0})) << ran.err.substr(0, kLongestError);
  EXPECT_THAT(ran.err, StartsWith("lockstep: error: "));
  EXPECT_LT(ran.err.size(), kLongestError);
  for (const auto& word : words) EXPECT_THAT(ran.err.substr(0, kLongestError), HasSubstr(word));
}

// A file of tensors whose names have `prefix` in front.
void put_before_names(const fs::path& file, const std::string& prefix) {
  const std::string bytes = read_file(file);
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof(length));
  const auto before = nlohmann::json::parse(bytes.substr(8, length));
  nlohmann::json header;
  for (const auto& [name, entry] : before.items()) {
    header[name == "__metadata__" ? name : prefix + name] = entry;
  }
  const std::string text = header.dump();
  const std::string data = bytes.substr(8 + length);
  length = text.size();
  std::string out(sizeof(length), '\0');
  std::memcpy(out.data(), &length, sizeof(length));
  write_file(file, out + text + data);
}

// ---- data

TEST(UserMistakes, PythonsCifar10IsNotTheBinaryOne) {
  const Workbench bench;
  const auto folder = bench.path() / "cifar-10-batches-py";
  fs::create_directory(folder);
  for (const auto* name : {"data_batch_1", "data_batch_2", "test_batch"}) write_file(folder / name, "\x80\x02}q\x01(U");
  for (const auto& root : {folder, bench.path() / "cifar-10-batches-py" / ".."}) {
    fs::remove_all(bench.data());
    expect_refused(run_program(bench.train({"data.root=" + root.string()})), 2,
                   {"[data.root]", "data_batch_1 is of CIFAR-10's Python version", "cifar-10-binary.tar.gz"});
  }
  // Renamed, it is still a pickle.
  fs::create_directory(bench.data());
  for (int i = 1; i <= 5; ++i) {
    write_file(bench.data() / ("data_batch_" + std::to_string(i) + ".bin"), "\x80\x02}q\x01(U");
  }
  expect_refused(run_program(bench.train()), 1, {"data_batch_1.bin", "a Python pickle", "cifar-10-binary.tar.gz"});
}

TEST(UserMistakes, TheDataMayBeOneFolderDown) {
  const Workbench bench;
  fs::rename(bench.data(), bench.path() / "files");
  fs::create_directory(bench.data());
  fs::rename(bench.path() / "files", bench.data() / "cifar-10-batches-bin");
  const auto ran = run_program(bench.train());
  EXPECT_TRUE(ran.status.ok()) << ran.err;
  EXPECT_THAT(read_file(bench.work_dir() / "log" / "rank.0"), HasSubstr("data/cifar-10-batches-bin"));

  fs::copy(bench.data() / "cifar-10-batches-bin", bench.data() / "copy");
  expect_refused(run_program(bench.train()), 2,
                 {"[data.root]", "did you mean", "data/cifar-10-batches-bin or ", "data/copy?"});
}

TEST(UserMistakes, TheDataMayBeOneFolderUp) {
  const Workbench bench;
  const auto below = bench.data() / "cifar-10-batches-bin";
  expect_refused(run_program(bench.train({"data.root=" + below.string()})), 2,
                 {"[data.root]", "does not exist", "did you mean " + bench.data().string() + "?"});
  fs::create_directory(below);
  expect_refused(run_program(bench.train({"data.root=" + below.string()})), 2,
                 {"[data.root]", "did you mean " + bench.data().string() + "?"});
  const auto file = run_program(bench.train({"data.root=" + (bench.data() / "data_batch_1.bin").string()}));
  EXPECT_TRUE(file.status.ok()) << file.err;
}

TEST(UserMistakes, ABatchLargerThanTheDataNamesTheKeys) {
  const Workbench bench;
  expect_refused(run_program(bench.train({"data.batch_size=1000"})), 2,
                 {"data.batch_size", "1000", "40", "data.remainder"});
}

TEST(UserMistakes, AFileThatNoMemoryHoldsIsNotRead) {
  const Workbench bench;
  fs::resize_file(bench.data() / "data_batch_1.bin", std::uintmax_t{3073} * 1000000000);
  expect_refused(run_program(bench.train()), 1, {"data_batch_1.bin", "3073000000000 bytes", "memory", "available"});
}

TEST(UserMistakes, AGzipThatUnpacksToMoreThanItPromises) {
  const Workbench bench;
  ASSERT_TRUE(
      lockstep({"data", "synthesize", "mnist", "--out", bench.path() / "mnist", "--train", "40", "--test", "10"})
          .status.ok());
  const auto pictures = bench.path() / "mnist" / "train-images-idx3-ubyte";
  ASSERT_TRUE(fs::exists(pictures));
  fs::resize_file(pictures, 64 << 20);
  ASSERT_TRUE(run_program({"gzip", "-1", pictures}).status.ok());
  expect_refused(run_program(bench.train({"data.name=mnist", "data.root=" + (bench.path() / "mnist").string()})), 1,
                 {"train-images-idx3-ubyte.gz", "unpacks to more than the 31376 bytes that its header gives"});
}

// ---- weights

TEST(UserMistakes, WeightsThatAreNone) {
  const Workbench bench;
  const auto weights = bench.path() / "model.pth";
  write_file(weights, "PK\x03\x04" + std::string(1000, 'x'));
  expect_refused(run_program(bench.train({"model.weights=" + weights.string()})), 2,
                 {"[model.weights]", "not a whole zip archive", "torch.save", "cut short", "model.pth"});
  write_file(weights, "\x80\x04" + std::string(1000, 'x'));
  expect_refused(run_program(bench.train({"model.weights=" + weights.string()})), 2,
                 {"[model.weights]", "a Python pickle", "safetensors.torch.save_file", "model.pth"});
  expect_refused(run_program(bench.train({"model.weights=/no/such/file"})), 2, {"[model.weights]", "/no/such/file"});
}

TEST(UserMistakes, WeightsWithAPrefixAndAnotherHead) {
  const Workbench bench;
  ASSERT_TRUE(run_program(bench.train()).status.ok());
  const auto weights = bench.path() / "w.safetensors";
  fs::copy_file(bench.work_dir() / "model.safetensors", weights);
  const auto train = [&](Words more) {
    fs::remove_all(bench.work_dir());
    more.push_back("model.weights=" + weights.string());
    return run_program(bench.train(more));
  };
  expect_refused(train({"model.num_classes=12"}), 2,
                 {"fc2.weight is Float [10, 16] in the file, Float [12, 16] in the module",
                  "model.weights_except=[fc2.bias, fc2.weight]", "model.num_classes=10"});
  const auto new_head = train({"model.num_classes=12", "model.weights_except=[fc2.bias, fc2.weight]"});
  EXPECT_TRUE(new_head.status.ok()) << new_head.err;
  EXPECT_THAT(new_head.out, HasSubstr("starting from the weights in"));
  expect_refused(train({"model.weights_except=[fc3.*]"}), 2, {"no tensor of the model is called 'fc3.*'"});

  put_before_names(weights, "module.");
  expect_refused(
      train({}), 2,
      {"all names in the file begin with 'module.'", "DistributedDataParallel", "model.weights_prefix=module."});
  const auto stripped = train({"model.weights_prefix=module."});
  EXPECT_TRUE(stripped.status.ok()) << stripped.err;
}

// ---- keys and values

TEST(UserMistakes, KeysOfOtherProgramsAreTranslated) {
  const Workbench bench;
  expect_refused(run_program(bench.train({"optimizer.learning_rate=1", "system.epochs=3", "data.batchsize=8",
                                          "train.lr=1", "train.num_workers=2", "dataset=mnist", "train.max_epochs=3",
                                          "data.path=x", "optimizer.momentun=0.5"})),
                 2,
                 {"9 mistakes", "'optimizer.learning_rate'; here it is called 'optimizer.lr'",
                  "'system.epochs'; did you mean 'train.epochs'?", "here it is called 'data.batch_size'",
                  "'train.lr'; did you mean 'optimizer.lr'?", "here it is called 'data.workers'",
                  "'dataset'; here it is called 'data.name'", "here it is called 'train.epochs'",
                  "here it is called 'data.root'", "did you mean 'momentum'?"});
}

TEST(UserMistakes, AFileWithoutItsFlag) {
  const Workbench bench;
  expect_refused(lockstep({"train", bench.config()}), 2,
                 {"is given without --config", "write lockstep train --config " + bench.config()});
  expect_refused(run_program(bench.train({"other.yaml"})), 2, {"other.yaml is given without --config", bench.config()});
  expect_refused(lockstep({"train", "--config", "/no/such/run.yaml"}), 2, {"/no/such/run.yaml"});
}

TEST(UserMistakes, NumbersWithoutSenseAreOutOfRange) {
  const Workbench bench;
  expect_refused(run_program(bench.train({"train.epochs=9223372036854775807"})), 2,
                 {"train.epochs: 9223372036854775807 is out of range", "from 1 to 1000000000"});
  const Words large = {"optimizer.lr=1e308",
                       "train.steps=9223372036854775807",
                       "scheduler.warmup_epochs=1e300",
                       "scheduler.warmup_steps=9223372036854775807",
                       "scheduler.step_size=9223372036854775807",
                       "scheduler.milestones=[9223372036854775807]",
                       "data.batch_size=9223372036854775807",
                       "parallel.bucket_mb=1e300",
                       "checkpoint.keep=9223372036854775807",
                       "train.accumulate=9223372036854775807"};
  const auto ran = run_program(bench.train(large));
  expect_refused(ran, 2, {"10 mistakes"});
  for (const auto& key : large) EXPECT_THAT(ran.err, HasSubstr(key.substr(0, key.find('=')))) << ran.err;
}

TEST(UserMistakes, ModelsThatNoMemoryHolds) {
  const Workbench bench;
  expect_refused(run_program(bench.train({"model.hidden=[1000000000, 1000000000]"})), 2,
                 {"4000012336.0 GB", "GB of memory are available", "model.hidden"});
  expect_refused(run_program(bench.train({"model.name=resnet50", "model.num_classes=1000000000"})), 2,
                 {"resnet50", "8196.0 GB", "model.num_classes"});
}

// ---- configurations

// With a quadratic search this takes more than half a minute of a processor, which the shell does not give.
TEST(UserMistakes, SixtyThousandUnknownKeys) {
  const Workbench bench;
  std::string text = read_file(bench.config());
  for (int i = 0; i < 60000; ++i) text += "key_number_" + std::to_string(i) + ": 1\n";
  write_file(bench.config(), text);
  expect_refused(run_program({"bash", "-c", R"(ulimit -t 15; exec "$@")", "bash", LOCKSTEP_BINARY, "train", "--config",
                              bench.config()}),
                 2, {"60000 mistakes", "there is no key 'key_number_0'", "'key_number_9'", "and 59990 more"});
}

// Where libtorch cannot be loaded, and where it can but its BLAS would try for ever to get memory for a first product.
TEST(UserMistakes, AnAddressSpaceThatIsTooSmall) {
  const Workbench bench;
  for (const auto* limit : {"ulimit -v 600000", "ulimit -v 800000"}) {
    auto words = bench.train();
    words.insert(words.begin(), {"bash", "-c", std::string(limit) + R"(; exec timeout 30 "$@")", "bash"});
    expect_refused(run_program(words), 2, {"the address space of a process is limited to", "ulimit -v unlimited"});
  }
}

TEST(UserMistakes, FilesThatAreNoConfiguration) {
  const Workbench bench;
  const auto refused = [&](const std::string& text, const std::vector<std::string>& words) {
    write_file(bench.config(), text);
    expect_refused(run_program(bench.train()), 2, words);
  };
  refused("PK\x03\x04 and so on", {"a zip archive, not the text of a YAML file", "run.yaml"});
  refused("%PDF-1.7\n", {"a PDF document"});
  refused(std::string("model: {}\nname: a\0b\n", 20), {"byte 18", "0x00 (NUL)", "run.yaml:2"});
  refused("a: " + std::string(10000, '['), {"nested more than 50 deep", "run.yaml:1"});
  refused("optimizer: {name: " + std::string(10 << 20, 'a') + "}\n",
          {"a text may have 4096 bytes", "... (10485760 bytes)", "run.yaml:1"});
  refused("optimizer: {lr: 1, name: " + std::string(4000, 'a') + "}\n", {"optimizer.name", "... (4000 bytes)"});
  refused("model:\n  ? " + std::string(4000, 'k') + "\n  : 1\n", {"there is no key 'model.kkk", "... (4006 bytes)"});
  expect_refused(lockstep({"train", "--config", "/bin/true"}), 2, {"an ELF program", "/bin/true"});
}

// One rank needs no plan.
TEST(UserMistakes, APlanThatIsOtherJson) {
  const Workbench bench;
  const auto plan = bench.path() / "plan.json";
  write_file(plan, "[]");
  const auto ran = under_lockstep_run(2, bench.train({"parallel.mode=auto", "parallel.plan=" + plan.string()}));
  EXPECT_FALSE(ran.status.ok());
  EXPECT_THAT(ran.err, AllOf(HasSubstr("there is a list where an object {...} should be"), HasSubstr("plan.json"),
                             Not(HasSubstr("json.exception"))));
}

// ---- checkpoints

// ---- several ranks

/// Two ranks, of which each has `override` with its own number in place of $RANK.
Captured with_own(const Workbench& bench, const std::string& override, const Words& more = {}) {
  std::string script = "exec";
  for (const auto& word : bench.train(more)) script += " '" + word + "'";
  return run_program({LOCKSTEP_BINARY, "run", "--nproc-per-node", "2", "--max-restarts", "2", "bash", "-c",
                      script + " \"" + override + "\""});
}

TEST(UserMistakes, RanksWithOtherSettingsAreToldBeforeTheyTrain) {
  const Workbench bench;
  for (const auto* key :
       {"system.seed", "optimizer.lr", "data.batch_size", "train.accumulate", "checkpoint.every_steps"}) {
    const std::string name(key);
    const auto ran = with_own(bench, name + "=1$RANK");
    EXPECT_EQ(ran.status, (ExitStatus{2, 0})) << ran.err;
    EXPECT_THAT(ran.err, AllOf(HasSubstr("rank 1 does not have the settings of rank 0: " + name + " is 11"),
                               HasSubstr("and 10"), HasSubstr("0 of 2 restarts were used")));
    EXPECT_FALSE(fs::exists(bench.work_dir() / "result.json"));
  }
  // What belongs to a host may differ.
  const auto ran = with_own(bench, "system.work_dir=" + bench.path().string() + "/of_rank_$RANK");
  EXPECT_TRUE(ran.status.ok()) << ran.err;
}

TEST(UserMistakes, RanksWithOtherDataAreToldBeforeTheyTrain) {
  const Workbench bench;
  const auto other = bench.path() / "data_1";
  ASSERT_TRUE(run_program({LOCKSTEP_BINARY, "data", "synthesize", "cifar10", "--out", other.string(), "--train", "80",
                           "--test", "10"})
                  .status.ok());
  fs::rename(bench.data(), bench.path() / "data_0");
  const auto ran = with_own(bench, "data.root=" + (bench.path() / "data_$RANK").string());
  EXPECT_EQ(ran.status, (ExitStatus{2, 0})) << ran.err;
  EXPECT_THAT(ran.err,
              AllOf(HasSubstr("rank 1 does not have the settings of rank 0"),
                    HasSubstr("training pictures is 80 there and "), HasSubstr("the same data, on every host")));
}

TEST(UserMistakes, AnAxisThatNothingUsesIsNamed) {
  const Workbench bench;
  Words words{LOCKSTEP_BINARY, "run", "--nproc-per-node", "2"};
  for (auto& word : bench.train({"parallel.mode=semi_auto", "parallel.mesh={dta: 2}"})) words.push_back(word);
  const auto ran = run_program(words);
  EXPECT_TRUE(ran.status.ok()) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("nothing is divided along the axis 'dta' of parallel.mesh"));
}

// ---- words at the wrong place

TEST(UserMistakes, WordsAtTheWrongPlaceAreAnsweredWithTheRightOnes) {
  const Workbench bench;
  const auto train = [&](Words more) { return run_program(bench.train(std::move(more))); };
  expect_refused(train({"train.epochs", "=", "3"}), 2, {"blanks around the = of train.epochs", "write train.epochs=3"});
  expect_refused(train({"--optimizer.lr=0.1"}), 2, {"keys have no dashes", "write optimizer.lr=0.1"});
  expect_refused(train({"--nproc-per-node=2"}), 2, {"a flag of the launcher", "before the program"});
  expect_refused(lockstep({"run", "--nproc-per-node", "2", bench.config()}), 2,
                 {"is a configuration, and no program", "lockstep train --config"});
  expect_refused(lockstep({"status"}), 2, {"the scheduler's address is not given", "MS_SCHED_HOST"});
  expect_refused(lockstep({"status", "--json", "--calls", "logs"}), 2, {"--json excludes --calls"});
  expect_refused(lockstep({"scheduler", "--dashboard", "cluster.sched_prt=1"}), 2, {"cluster.sched_prt", "sched_port"});
  expect_refused(lockstep({"scheduler", "cluster.dashboard=node"}), 2,
                 {"cluster.dashboard", "neither PORT nor HOST:PORT"});
  const auto table = lockstep({"rank-table", "--server_ip", "127.0.0.1", "--out", "/nonexist"});
  EXPECT_EQ(table.status, (ExitStatus{2, 0}));
  EXPECT_THAT(table.err, AllOf(HasSubstr("lockstep: error: [--out]"), HasSubstr("/nonexist does not exist")));
  const auto link = (bench.path() / "link").string();
  fs::create_symlink("/nowhere/at/all", link);
  expect_refused(train({"system.work_dir=" + link}), 2, {"[system.work_dir]", link + " is a link to /nowhere/at/all"});
  const std::string gone = bench.path() / "gone";
  fs::create_directory(gone);
  expect_refused(
      run_program({"/bin/bash", "-c", "cd '" + gone + "' && rmdir '" + gone + "' && exec '" LOCKSTEP_BINARY "' info"}),
      2, {"the current folder was removed"});
}

// ---- files and folders

TEST(UserMistakes, FilesWhereFoldersBelongAndFoldersWhereFilesDo) {
  const Workbench bench;
  const std::string config = bench.config();
  const auto missing = (bench.path() / "none.safetensors").string();
  expect_refused(run_program(bench.train({"checkpoint.resume=" + missing})), 2,
                 {"[checkpoint.resume]", "there is no file " + missing, "auto or none"});
  expect_refused(run_program(bench.train({"checkpoint.resume=" + bench.path().string()})), 2,
                 {"[checkpoint.resume]", "is a folder", "checkpoint.folder"});
  expect_refused(run_program(bench.train({"system.work_dir=" + config})), 2,
                 {"[system.work_dir]", "cannot make the folder " + config});
  expect_refused(run_program(bench.train({"checkpoint.folder=" + config})), 2,
                 {"[checkpoint.folder]", "cannot make the folder " + config});
  expect_refused(run_program(bench.train({"system.work_dir=/proc/x"})), 2,
                 {"[system.work_dir]", "cannot make the folder /proc/x", "choose another"});
}

// Of what is measured or predicted nothing is lost: the paths are tried first.
TEST(UserMistakes, ResultsHaveAPlaceBeforeTheWorkBegins) {
  const Workbench bench;
  ASSERT_TRUE(run_program(bench.train()).status.ok());
  const auto weights = bench.work_dir() / "model.safetensors";
  const auto run = [&](Words words) {
    words.insert(words.end(), {"--config", bench.config(), "--weights", weights});
    auto ran = lockstep(words);
    EXPECT_THAT(ran.out, Not(HasSubstr("samples in"))) << "nothing was measured";
    return ran;
  };
  const std::string folder = bench.path(), below_file = bench.config() + "/out", nowhere = folder + "/none/file";
  for (const auto* command : {"eval", "predict"}) {
    expect_refused(run({command, "--json", folder}), 2, {"[--json]", folder + " is a folder", "name of a file"});
    expect_refused(run({command, "--json", nowhere}), 2, {"[--json]", nowhere, "/none does not exist"});
    expect_refused(run({command, "--json", below_file}), 2, {"[--json]", "run.yaml is not a folder"});
  }
  expect_refused(run({"predict", "--out", below_file}), 2, {"[--out]", "cannot make the folder " + below_file});
  const auto saved = fs::directory_iterator(bench.work_dir() / "checkpoints")->path();
  expect_refused(lockstep({"checkpoint", "merge", saved, "--out", folder}), 2, {"[--out]", "is a folder"});
  expect_refused(lockstep({"eval", "--config", bench.config(), "--weights", bench.config()}), 2,
                 {"[model.weights]", "run.yaml", "a safetensors file, a .pth of torch.save, or a checkpoint"});
}

TEST(UserMistakes, WhatOnlyTheDataShowsNamesTheLineOfTheKey) {
  const Workbench bench;
  const auto other = bench.path() / "other.yaml";
  write_file(other, "base: " + bench.config() + "\nmodel:\n  num_classes: 3\n");
  for (const int ranks : {1, 2}) {
    const Words words{LOCKSTEP_BINARY, "train", "--config", other};
    const auto ran = ranks == 1 ? run_program(words) : under_lockstep_run(ranks, words);
    EXPECT_EQ(ran.status, (ExitStatus{2, 0})) << ran.err;
    EXPECT_THAT(ran.err,
                AllOf(HasSubstr("[model.num_classes] is 3, but cifar10 has 10 classes"), HasSubstr("other.yaml:3")));
  }
}

TEST(UserMistakes, MetricsThatTheTaskHasNotAreAnsweredByADryRun) {
  const Workbench bench;
  expect_refused(run_program(bench.train({"metrics=[acuracy]", "--dry-run"})), 2, {"'acuracy'", "override"});
  expect_refused(run_program(bench.train({"metrics=[mae]", "--dry-run"})), 2, {"'mae' compares numbers"});
  expect_refused(run_program(bench.train({"callbacks.use=[early_stopping: {metric: f1}]", "--dry-run"})), 2,
                 {"no metric 'f1'; it has loss, accuracy", "override"});
}

// A shell leaves it as it is behind the `=`.
TEST(UserMistakes, TheHomeFolderIsMeantByItsSign) {
  const Workbench bench;
  const auto ran = run_program(bench.train({"system.work_dir=~/out_at_home"}), {{"HOME", bench.path().string()}});
  EXPECT_TRUE(ran.status.ok()) << ran.err;
  EXPECT_TRUE(fs::exists(bench.path() / "out_at_home" / "result.json"));
  EXPECT_FALSE(fs::exists(bench.path() / "~"));
  // The paths of parts, too.
  write_file(bench.path() / "book.txt", std::string(2000, 'x'));
  const auto text = run_program(
      {LOCKSTEP_BINARY, "train", "--config", LOCKSTEP_SOURCE_DIR "/configs/gpt_tiny_text.yaml", "data.file=~/book.txt",
       "system.work_dir=~/gpt", "--dry-run", "callbacks.use=[best_checkpoints: {folder: ~/best}]"},
      {{"HOME", bench.path().string()}});
  EXPECT_TRUE(text.status.ok()) << text.err;
  EXPECT_THAT(text.out, HasSubstr("file: " + (bench.path() / "book.txt").string()));
}

TEST(UserMistakes, WhatStandsInTheWayOfACheckpointIsSkipped) {
  const Workbench bench;
  ASSERT_TRUE(run_program(bench.train()).status.ok());
  const auto checkpoints = bench.work_dir() / "checkpoints";
  fs::create_directory(checkpoints / "step_00000101.safetensors");
  write_file(checkpoints / "step_00000101.safetensors" / "file", "x");
  fs::create_symlink("/nowhere", checkpoints / "step_00000102.safetensors");
  ASSERT_EQ(::mkfifo((checkpoints / "step_00000103.safetensors").c_str(), 0600), 0);
  const auto whole = checkpoints / "step_00000004.sharded";
  for (const auto* later : {"step_00000104.sharded", "step_00000105.sharded", "step_00000106.sharded"}) {
    fs::copy(whole, checkpoints / later);
    fs::remove(checkpoints / later / "index.json");
  }
  fs::create_directory(checkpoints / "step_00000104.sharded" / "index.json");
  ASSERT_EQ(::mkfifo((checkpoints / "step_00000105.sharded" / "index.json").c_str(), 0600), 0);
  auto index = read_file(whole / "index.json");
  const auto version = index.find("\"lockstep_sharded\": 2");
  ASSERT_NE(version, std::string::npos);
  index[version + 20] = '3';  // one bit
  write_file(checkpoints / "step_00000106.sharded" / "index.json", index);
  const auto ran = run_program(bench.train());
  EXPECT_TRUE(ran.status.ok()) << ran.err;
  EXPECT_THAT(ran.out, AllOf(HasSubstr("step_00000104.sharded.damaged): "), HasSubstr("this is a folder, not an index"),
                             HasSubstr("this is not a regular file, so it is no index"),
                             HasSubstr("the index is damaged: its SHA-256")));
  EXPECT_THAT(ran.out, AllOf(HasSubstr("step_00000101.safetensors.damaged): it is a folder"),
                             HasSubstr("step_00000102.safetensors.damaged): it is a link to nothing"),
                             HasSubstr("step_00000103.safetensors.damaged): it is not a regular file")));
  EXPECT_TRUE(fs::exists(checkpoints / "step_00000101.safetensors.damaged" / "file"));
}

// ---- backends and devices

// Asked for in either way, the answer is the same, and names what asked.
TEST(UserMistakes, BackendsForDevicesThatAreNotThere) {
  const Workbench bench;
  for (const std::string backend : {"nccl", "staged"}) {
    expect_refused(run_program(bench.train({"parallel.backend=" + backend})), 2,
                   {"[parallel.backend] " + backend, "no CUDA device", "use auto"});
    expect_refused(run_program(bench.train(), {{"LOCKSTEP_BACKEND", backend}}), 2,
                   {"[LOCKSTEP_BACKEND] " + backend, "no CUDA device", "use auto"});
    expect_refused(run_program(bench.train({"parallel.backend=" + backend, "system.device=cpu", "--dry-run"})), 2,
                   {"parallel.backend " + backend, "system.device is cpu", "auto"});
  }
  expect_refused(run_program(bench.train({"parallel.backend=nccl", "parallel.encrypt=true", "--dry-run"})), 2,
                 {"parallel.encrypt", "nccl cannot encrypt", "staged"});
  expect_refused(run_program(bench.train({"parallel.backend=mpi", "parallel.encrypt=true", "--dry-run"})), 2,
                 {"parallel.encrypt", "mpi cannot encrypt", "auto or tcp"});
  for (const auto* key : {"parallel.backend=self", "parallel.mode=stand_alone"}) {
    const auto ran = under_lockstep_run(2, bench.train({key, "--dry-run"}));
    EXPECT_EQ(ran.status, (ExitStatus{2, 0})) << key << ran.out << ran.err;
    EXPECT_THAT(ran.out + ran.err, HasSubstr("is for one process"));
  }
}

TEST(UserMistakes, VariablesThatBreakTheirRulesAreFoundByTheDoctor) {
  for (const auto& [name, value] : std::vector<std::pair<std::string, std::string>>{{"LOCKSTEP_BACKEND", "nonsense"},
                                                                                    {"LOCKSTEP_BACKEND", "nccl"},
                                                                                    {"LOCKSTEP_TIMEOUT_S", "abc"},
                                                                                    {"LOCKSTEP_ENCRYPT", "yes"}}) {
    const auto ran = lockstep({"doctor"}, {{name, value}});
    EXPECT_EQ(ran.status, (ExitStatus{1, 0})) << name << "=" << value << ran.out << ran.err;
    EXPECT_THAT(ran.out, AllOf(HasSubstr("environment"), HasSubstr(name), HasSubstr(value)));
  }
  const Workbench bench;
  expect_refused(run_program(bench.train({"parallel.mode=semi_auto"}), {{"LOCKSTEP_GLOBAL_STRICT", "maybe"}}), 2,
                 {"LOCKSTEP_GLOBAL_STRICT", "maybe"});
}

TEST(UserMistakes, NumbersThatNoMachineHas) {
  expect_refused(lockstep({"run", "--nproc-per-node", "100000000", "true"}), 2, {"nproc_per_node", "from 1 to 4096"});
  expect_refused(lockstep({"plan", "--gpt", "layers=1000000000", "--devices", "2"}), 2, {"at most 1000 layers"});
  for (const auto* factor : {"0", "-1", "nan", "1e308", "1e-308", "much"}) {
    expect_refused(lockstep({"plan", "--gpt", "layers=1", "--memory", factor}), 2, {"from 1e-6 to 1e6", factor});
  }
  expect_refused(lockstep({"plan", "--gpt", "layers=1", "--save", "/nowhere/plan.json"}), 2,
                 {"--save", "/nowhere does not exist"});
}

}  // namespace
}  // namespace lockstep::test
