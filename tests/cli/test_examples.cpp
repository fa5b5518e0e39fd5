// Each example, started as its first lines say.
#include "cli/program.h"
#include "cli/two_nodes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

Words example(const std::string& name) { return {std::string(LOCKSTEP_EXAMPLES) + "/" + name}; }

TEST(Examples, TheReadmesConfigurationTrains) {
  const auto readme = read_file(LOCKSTEP_SOURCE_DIR "/README.md");
  const std::string fence = "```yaml\n";
  const auto begin = readme.find(fence);
  ASSERT_NE(begin, std::string::npos);
  const auto text = begin + fence.size();
  const TemporaryFolder folder;
  write_file(folder.path() / "mlp.yaml", readme.substr(text, readme.find("```", text) - text));
  ASSERT_TRUE(run_in(folder.path(), {"lockstep", "data", "synthesize", "mnist", "--out", "data/mnist", "--train", "600",
                                     "--test", "100"})
                  .status.ok());
  const auto ran = run_in(folder.path(), {"lockstep", "train", "--config", "mlp.yaml", "train.epochs=1"});
  EXPECT_TRUE(ran.status.ok()) << ran.err;
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "out/one/result.json"));
}

TEST(Examples, AllgatherPrintsEverybodysNumber) {
  const auto ran = under_lockstep_run(4, example("allgather"));
  ASSERT_TRUE(ran.status.ok()) << ran.err;
  EXPECT_EQ(ran.out, "[rank 0] [[0.], [1.], [2.], [3.]]\n");
}

TEST(Examples, AllgatherUnderMpirun) {
  if (!LOCKSTEP_HAS_MPI) GTEST_SKIP() << "this build has no MPI";
  const auto ran = under_mpirun(4, example("allgather"));
  ASSERT_TRUE(ran.status.ok()) << ran.err;
  EXPECT_EQ(ran.out, "[[0.], [1.], [2.], [3.]]\n");
}

TEST(Examples, ToyDdpKeepsItsReplicasEqual) {
  EXPECT_EQ(run_program(example("toy_ddp")).out, "replicas on 1 rank(s) are equal\n");
  EXPECT_EQ(under_lockstep_run(2, example("toy_ddp")).out, "[rank 0] replicas on 2 rank(s) are equal\n");
  if (!LOCKSTEP_HAS_MPI) GTEST_SKIP() << "this build has no MPI: nothing was started under mpirun";
  EXPECT_EQ(under_mpirun(2, example("toy_ddp")).out, "replicas on 2 rank(s) are equal\n");
}

TEST(Examples, ResnetTrainsOnCifar10) {
  const Workbench bench;
  ASSERT_TRUE(
      lockstep({"data", "synthesize", "cifar10", "--out", bench.data(), "--train", "256", "--test", "10"}).status.ok());
  Words program = example("resnet_cifar10");
  program.push_back(bench.data());
  const auto ran = under_lockstep_run(2, program);
  ASSERT_TRUE(ran.status.ok()) << ran.err;
  EXPECT_THAT(ran.out, StartsWith("[rank 0] epoch 1: loss "));
  EXPECT_THAT(ran.out, HasSubstr("accuracy "));

  const auto usage = run_program(example("resnet_cifar10"));
  EXPECT_EQ(usage.status, (ExitStatus{1, 0}));
  EXPECT_THAT(usage.err, HasSubstr("usage: resnet_cifar10"));
}

/// The lines that an example prints on rank 0, without prefixes.
std::string printed(const std::string& out) {
  std::string text = out;
  for (auto at = text.find("[rank 0] "); at != std::string::npos; at = text.find("[rank 0] ")) text.erase(at, 9);
  return text;
}

/// A small MNIST as the last argument of `program`.
void give_digits(const Workbench& bench, Words& program) {
  const std::string digits = bench.path() / "digits";
  ASSERT_TRUE(
      lockstep({"data", "synthesize", "mnist", "--out", digits, "--train", "400", "--test", "150"}).status.ok());
  program.push_back(digits);
}

TEST(Examples, TheGlobalMlpIsTheSameHoweverItIsDivided) {
  const Workbench bench;
  Words program = example("mlp_mnist_global");
  ASSERT_NO_FATAL_FAILURE(give_digits(bench, program));
  const auto alone = run_program(program);
  ASSERT_TRUE(alone.status.ok()) << alone.err;
  EXPECT_THAT(alone.out, StartsWith("epoch 1: loss "));
  program.insert(program.end(), {"1", "2"});
  const auto divided = under_lockstep_run(4, program);
  ASSERT_TRUE(divided.status.ok()) << divided.err;
  // Printed with six digits; sums in another order change the last ones.
  const auto loss_of = [](const std::string& out) {
    return std::stod(out.substr(std::string("epoch 1: loss ").size()));
  };
  EXPECT_NEAR(loss_of(printed(divided.out)), loss_of(alone.out), 1e-4);
  EXPECT_THAT(divided.out, HasSubstr("accuracy "));
}

TEST(Examples, TheMirroredMlpTrains) {
  const Workbench bench;
  Words program = example("mlp_mnist_mirrored");
  ASSERT_NO_FATAL_FAILURE(give_digits(bench, program));
  const auto ran = under_lockstep_run(2, program);
  ASSERT_TRUE(ran.status.ok()) << ran.err;
  EXPECT_THAT(printed(ran.out), StartsWith("epoch 1: loss "));
  EXPECT_THAT(ran.out, HasSubstr("accuracy "));
}

}  // namespace
}  // namespace lockstep::test
