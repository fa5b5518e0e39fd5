// `lockstep data`.
#include "cli/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

namespace lockstep::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(DataCommand, MakesAndChecksBothDataSets) {
  const TemporaryFolder folder;
  for (const std::string name : {"cifar10", "mnist"}) {
    const std::string out = folder.path() / name;
    const auto made =
        lockstep({"data", "synthesize", name, "--out", out, "--train", "20", "--test", "10", "--seed", "3"});
    EXPECT_TRUE(made.status.ok()) << made.err;
    EXPECT_THAT(made.out, HasSubstr("20 train and 10 test"));
    const auto checked = lockstep({"data", "check", out});
    EXPECT_TRUE(checked.status.ok()) << checked.err;
    EXPECT_THAT(checked.out, AllOf(HasSubstr(name), HasSubstr("20 records"), HasSubstr("10 records"), HasSubstr("ok")));
  }
}

TEST(DataCommand, MakesClicksWithATeacher) {
  const TemporaryFolder folder;
  const std::string out = folder.path() / "criteo";
  const auto made =
      lockstep({"data", "synthesize", "criteo", "--rows", "100", "--scale", "0.001", "--seed", "1", "--out", out});
  EXPECT_TRUE(made.status.ok()) << made.err;
  EXPECT_THAT(made.out, AllOf(HasSubstr("100 train and 20 test"), HasSubstr("AUC")));
  EXPECT_THAT(read_file(folder.path() / "criteo/teacher.json"), HasSubstr("\"auc\": 0."));
  const auto pictures = lockstep({"data", "synthesize", "mnist", "--rows", "100", "--out", out});
  EXPECT_EQ(pictures.status, (ExitStatus{2, 0}));
  EXPECT_THAT(pictures.err, HasSubstr("--train"));
  const auto scale = lockstep({"data", "synthesize", "criteo", "--scale", "-1", "--out", out});
  EXPECT_EQ(scale.status, (ExitStatus{2, 0}));
  EXPECT_THAT(scale.err, HasSubstr("scale"));
}

TEST(DataCommand, NamesTheFileAndRecordThatIsBad) {
  const Workbench bench;
  {
    std::fstream file(bench.data() / "data_batch_2.bin", std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(3073 * 4);  // the label of record 4
    file.put(10);
  }
  std::filesystem::resize_file(bench.data() / "test_batch.bin", 3073 * 9 + 100);
  std::filesystem::remove(bench.data() / "data_batch_5.bin");
  const auto checked = lockstep({"data", "check", bench.data()});
  EXPECT_EQ(checked.status, (ExitStatus{1, 0}));
  EXPECT_THAT(checked.out, AllOf(HasSubstr("data_batch_2.bin: record 4"), HasSubstr("test_batch.bin"),
                                 HasSubstr("data_batch_5.bin")));
  EXPECT_THAT(checked.err, HasSubstr("lockstep: error: [data]"));
}

TEST(DataCommand, SaysWhenThereIsNoSuchFolder) {
  const auto checked = lockstep({"data", "check", "/no/such/folder"});
  EXPECT_EQ(checked.status, (ExitStatus{2, 0}));
  EXPECT_THAT(checked.err, HasSubstr("/no/such/folder"));
}

TEST(DataCommand, ChecksTheDataOfARun) {
  const TemporaryFolder folder;
  const auto yaml = (folder.path() / "run.yaml").string();
  write_file(yaml,
             "model: {name: mlp, num_classes: 2}\noptimizer: {lr: 0.1}\ntrain: {epochs: 1}\n"
             "data: {name: csv, train: train.csv, eval: eval.csv, numbers: [x], target: category, targets: [y]}\n");
  const Words train = {"data.train=" + (folder.path() / "train.csv").string(),
                       "data.eval=" + (folder.path() / "eval.csv").string()};
  const auto check = [&](Words more) {
    Words words = {"data", "check", "--config", yaml};
    words.insert(words.end(), train.begin(), train.end());
    words.insert(words.end(), more.begin(), more.end());
    return lockstep(words);
  };
  write_file(folder.path() / "train.csv", "x,y\n1,cat\n2,dog\n3,dog\n");
  write_file(folder.path() / "eval.csv", "x,y\n1,cat\n");
  const auto whole = check({});
  EXPECT_EQ(whole.status, (ExitStatus{0, 0})) << whole.err;
  EXPECT_THAT(whole.out, AllOf(HasSubstr("train: 3 samples"), HasSubstr("test: 1 samples"), HasSubstr("cat 1, dog 2"),
                               HasSubstr("features"), HasSubstr("ok")));
  write_file(folder.path() / "train.csv", "x,y\n1,cat\nbig,dog\n3\n4,dog\n5,cow\n");
  write_file(folder.path() / "eval.csv", "x,y\n1,horse\n");
  const auto broken = check({});
  EXPECT_EQ(broken.status, (ExitStatus{2, 0}));
  EXPECT_THAT(broken.out, AllOf(HasSubstr("train.csv:3"), HasSubstr("'big'"), HasSubstr("train.csv:4"),
                                HasSubstr("the label 2 is not one of 2 classes"), HasSubstr("'horse'")))
      << broken.err;
  EXPECT_THAT(broken.err, HasSubstr("lockstep: error: [data]"));
  EXPECT_EQ(check({"data.eval=/nowhere.csv"}).status, (ExitStatus{2, 0}));
  const Workbench bench;
  const auto pictures = lockstep({"data", "check", "--config", bench.config()});
  EXPECT_EQ(pictures.status, (ExitStatus{0, 0})) << pictures.err;
  EXPECT_THAT(pictures.out, HasSubstr("data cifar10"));
  const auto nothing = lockstep({"data", "check"});
  EXPECT_EQ(nothing.status, (ExitStatus{2, 0}));
  EXPECT_THAT(nothing.err, HasSubstr("--config"));
}

TEST(DataCommand, NeverOverwritesWhatMayBeRealData) {
  const Workbench bench;
  std::filesystem::remove(bench.data() / "SYNTHETIC.txt");
  const std::string before = read_file(bench.data() / "data_batch_1.bin");
  const auto made = lockstep({"data", "synthesize", "cifar10", "--out", bench.data(), "--train", "50", "--test", "10"});
  EXPECT_EQ(made.status, (ExitStatus{2, 0}));
  EXPECT_THAT(made.err, HasSubstr("SYNTHETIC.txt"));
  EXPECT_EQ(read_file(bench.data() / "data_batch_1.bin"), before);
}

}  // namespace
}  // namespace lockstep::test
