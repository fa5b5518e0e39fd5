#include <lockstep/base/available_memory.h>
#include <lockstep/base/temporary_folder.h>

#include <gtest/gtest.h>

#include <fstream>

namespace lockstep::test {
namespace {

class MemoryKills : public testing::Test {
 protected:
  void write(const std::filesystem::path& file, const std::string& text) {
    std::filesystem::create_directories((folder_.path() / file).parent_path());
    std::ofstream(folder_.path() / file) << text;
  }
  std::optional<MemoryAccount> account() { return memory_account(folder_.path() / "proc", folder_.path() / "cgroup"); }

 private:
  TemporaryFolder folder_{"lockstep-test"};
};

TEST_F(MemoryKills, OfAGroupOfVersionTwo) {
  write("proc/self/cgroup", "0::/outer/inner\n");
  write("proc/vmstat", "pgfault 7\noom_kill 99\n");
  write("cgroup/outer/memory.max", "536870912\n");
  write("cgroup/outer/memory.peak", "535822336\n");
  write("cgroup/outer/inner/memory.max", "max\n");
  write("cgroup/outer/inner/memory.events", "low 0\nhigh 0\nmax 21\noom 2\noom_kill 3\n");
  const auto found = account();
  ASSERT_TRUE(found);
  EXPECT_EQ(found->kills, 3U);
  EXPECT_EQ(describe_memory_kill(*found), "the kernel killed it for lack of memory (limit 512 MiB, peak 511 MiB)");
}

TEST_F(MemoryKills, OfAGroupOfVersionOne) {
  write("proc/self/cgroup", "7:cpu,cpuacct:/a\n4:memory:/job\n0::/\n");
  write("cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  write("cgroup/memory/job/memory.limit_in_bytes", "104857600\n");
  write("cgroup/memory/job/memory.max_usage_in_bytes", "104857600\n");
  write("cgroup/memory/job/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n");
  const auto found = account();
  ASSERT_TRUE(found);
  EXPECT_EQ(found->kills, 1U);
  EXPECT_EQ(describe_memory_kill(*found), "the kernel killed it for lack of memory (limit 100 MiB, peak 100 MiB)");
}

// It sees the path of the host, and only its own group.
TEST_F(MemoryKills, OfAContainer) {
  write("proc/self/cgroup", "4:memory:/docker/0123\n");
  write("cgroup/memory/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n");
  const auto found = account();
  ASSERT_TRUE(found);
  EXPECT_EQ(found->kills, 2U);
  EXPECT_EQ(describe_memory_kill(*found), "the kernel killed it for lack of memory");
}

TEST_F(MemoryKills, OfTheMachineWhereNoGroupCountsThem) {
  EXPECT_FALSE(account());
  write("proc/vmstat", "pgfault 7\noom_kill 99\n");
  const auto found = account();
  ASSERT_TRUE(found);
  EXPECT_EQ(found->kills, 99U);
  EXPECT_EQ(describe_memory_kill(*found),
            "the kernel killed a process of this machine for lack of memory at that time");
}

}  // namespace
}  // namespace lockstep::test
