// Detection in processes that a real launcher started.
#include <gtest/gtest.h>
#include <lockstep/base/process.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <sstream>
#include <string>
#include <vector>

namespace lockstep {
namespace {

constexpr auto kLong = std::chrono::seconds(180);

// This process's environment without what a launcher around the tests may have set.
Environment clean_environment() {
  Environment environment = current_environment();
  std::erase_if(environment, [](const auto& entry) {
    const std::string& name = entry.first;
    return name.starts_with("OMPI_") || name.starts_with("PMI") || name.starts_with("SLURM_") || name == "RANK" ||
           name == "WORLD_SIZE" || name == "MASTER_ADDR" || name == "MASTER_PORT";
  });
  return environment;
}

std::vector<std::string> sorted_lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  std::sort(lines.begin(), lines.end());
  return lines;
}

std::string host() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

Captured mpirun(std::vector<std::string> more, const Environment& added = {}) {
  ChildOptions options;
  options.arguments = {LOCKSTEP_TEST_MPIRUN,     "-n", "2", "--oversubscribe", "--allow-run-as-root",
                       LOCKSTEP_TEST_WORLD_PROBE};
  options.arguments.insert(options.arguments.end(), more.begin(), more.end());
  options.environment = clean_environment();
  for (const auto& [name, value] : added) options.environment->insert_or_assign(name, value);
  return run_and_capture(options, kLong);
}

TEST(Launchers, MpirunIsSeenAsOpenMpi) {
  const auto result = mpirun({});
  ASSERT_TRUE(result.status.ok()) << result.err;
  EXPECT_EQ(sorted_lines(result.out),
            (std::vector<std::string>{"rank 0 of 2 (local 0 of 2) on host " + host() +
                                          ", started by open_mpi (OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2)",
                                      "rank 1 of 2 (local 1 of 2) on host " + host() +
                                          ", started by open_mpi (OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2)"}));
}

TEST(Launchers, MpirunAroundLeftOverVariablesIsAnError) {
  const auto result = mpirun({}, {{"RANK", "0"}, {"WORLD_SIZE", "1"}});
  EXPECT_FALSE(result.status.ok());
  EXPECT_NE(result.err.find("2 processes cannot be 1 rank"), std::string::npos) << result.err;
}

TEST(Launchers, AWarningNamesTheLauncherThatDoesNotCount) {
  const Environment of_srun = {{"SLURM_JOB_ID", "3"},        {"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "0"},
                               {"SLURM_NTASKS", "1"},        {"SLURM_LOCALID", "0"}, {"SLURM_NODEID", "0"},
                               {"SLURM_TASKS_PER_NODE", "1"}};
  const auto result = mpirun({}, of_srun);
  ASSERT_TRUE(result.status.ok()) << result.err;
  const std::string warning = "launcher open_mpi gives the rank; there are also the variables of slurm (SLURM_PROCID=0";
  const auto at = result.err.find(warning);
  EXPECT_NE(at, std::string::npos) << result.err;
  EXPECT_EQ(result.err.find(warning, at + 1), std::string::npos) << "rank 0 alone warns: " << result.err;
}

TEST(Launchers, NoneUnderMpirunIsAlone) {
  const auto result = mpirun({"none"});
  ASSERT_TRUE(result.status.ok()) << result.err;
  const std::string alone =
      "rank 0 of 1 (local 0 of 1) on host " + host() + ", started without a launcher (launcher none was requested)";
  EXPECT_EQ(sorted_lines(result.out), (std::vector<std::string>{alone, alone}));
}

}  // namespace
}  // namespace lockstep
