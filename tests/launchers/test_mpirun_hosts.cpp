// Open MPI's mpirun over ssh between two hosts. Nobody says an address: MPI carries where the ranks meet.
#include "launchers/ssh_hosts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include <algorithm>

namespace lockstep::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

constexpr const char* kNetwork = "10.77.0.0/24";

class MpirunHosts : public testing::Test {
 protected:
  void SetUp() override {
    if (!LOCKSTEP_HAS_MPI) GTEST_SKIP() << "this build has no MPI";
    if (run_program({LOCKSTEP_MPIRUN, "--version"}).out.find("Open") == std::string::npos) {
      GTEST_SKIP() << LOCKSTEP_MPIRUN << " is not Open MPI's";
    }
    if (!hosts_.missing().empty()) GTEST_SKIP() << hosts_.missing();
  }

  /// The words on the first host; no variables are there of those that say who a rank is or where they meet.
  Captured on_first_host(Words words) const {
    auto variables = hosts_.for_mpirun();
    variables.insert_or_assign("LOCKSTEP_START_TIMEOUT_S", "60");
    words.insert(words.begin(), {"env", "-u", "LOCKSTEP_STORE_SECRET"});  // mpirun takes it to no other host unasked
    return run_in(bench_.path(), hosts_.on(0, std::move(words)), variables);
  }

  static Words mpirun(Words flags, const Words& program) {
    flags.insert(flags.begin(), {LOCKSTEP_MPIRUN, "-n", "4", "--mca", "btl_tcp_if_include", kNetwork, "-x", "PATH",
                                 "-x", "OMP_NUM_THREADS", "-x", "LOCKSTEP_START_TIMEOUT_S"});
    flags.insert(flags.end(), program.begin(), program.end());
    return flags;
  }

  nlohmann::json result() const { return nlohmann::json::parse(read_file(bench_.work_dir() / "result.json")); }

  Workbench bench_;
  SshHosts hosts_;
};

TEST_F(MpirunHosts, TrainsOnTwoRanksOfEachHost) {
  const Words train = bench_.train({"data.batch_size=5"});
  const auto listed = on_first_host(mpirun({"-H", "hosta:2,hostb:2"}, train));
  ASSERT_TRUE(listed.status.ok()) << listed.out << listed.err;
  EXPECT_THAT(listed.out, StartsWith("rank 0 of 4 (local 0 of 2) on host hosta, started by open_mpi"));
  const auto by_list = result();
  EXPECT_EQ(by_list["world_size"], 4);
  EXPECT_EQ(by_list["backend"], "hierarchy");

  // The same by a file, through the script that stands among the examples.
  std::filesystem::remove_all(bench_.work_dir());
  const auto from_file = on_first_host({"env", std::string("NETWORK=") + kNetwork, "bash",
                                        LOCKSTEP_SOURCE_DIR "/examples/launch/mpirun_hosts.sh", "hosta,hostb",
                                        bench_.config(), "data.batch_size=5"});
  ASSERT_TRUE(from_file.status.ok()) << from_file.out << from_file.err;
  EXPECT_EQ(result()["backend"], "hierarchy");
  EXPECT_EQ(result()["params_sha256"], by_list["params_sha256"]);

  // And on one host.
  std::filesystem::remove_all(bench_.work_dir());
  const auto alone = under_lockstep_run(4, train);
  ASSERT_TRUE(alone.status.ok()) << alone.err;
  EXPECT_EQ(result()["backend"], "shm");
  EXPECT_NEAR(result()["eval_loss"].get<double>(), by_list["eval_loss"].get<double>(), 1e-5);
}

TEST_F(MpirunHosts, VariablesThatAreHandedOnReachTheOtherHost) {
  // With another backend on the other host the ranks would not meet.
  for (const std::string backend : {"tcp", "mpi"}) {
    const auto ran = on_first_host(
        mpirun({"-H", "hosta:2,hostb:2", "-x", "LOCKSTEP_BACKEND=" + backend}, {LOCKSTEP_EXAMPLES "/allgather"}));
    ASSERT_TRUE(ran.status.ok()) << ran.out << ran.err;
    EXPECT_EQ(ran.out, "[[0.], [1.], [2.], [3.]]\n");
  }
}

TEST_F(MpirunHosts, RanksThatTakeTurnsOnTheHostsFindTheirOwn) {
  const auto ran = on_first_host(mpirun({"-H", "hosta:2,hostb:2", "--map-by", "node"}, {LOCKSTEP_EXAMPLES "/toy_ddp"}));
  ASSERT_TRUE(ran.status.ok()) << ran.out << ran.err;
  EXPECT_EQ(ran.out, "replicas on 4 rank(s) are equal\n");
  const auto worlds = on_first_host(mpirun({"-H", "hosta:2,hostb:2", "--map-by", "node"}, {LOCKSTEP_TEST_WORLD_PROBE}));
  auto lines = lines_of(worlds.out);
  std::sort(lines.begin(), lines.end());
  EXPECT_THAT(lines, ElementsAre(HasSubstr("rank 0 of 4 (local 0 of 2) on host hosta"),
                                 HasSubstr("rank 1 of 4 (local 0 of 2) on host hostb"),
                                 HasSubstr("rank 2 of 4 (local 1 of 2) on host hosta"),
                                 HasSubstr("rank 3 of 4 (local 1 of 2) on host hostb")));
}

}  // namespace
}  // namespace lockstep::test
