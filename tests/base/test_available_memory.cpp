#include <lockstep/base/available_memory.h>
#include <lockstep/base/temporary_folder.h>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <fstream>

namespace lockstep::test {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;

class AvailableMemory : public testing::Test {
 protected:
  void write(const std::filesystem::path& file, const std::string& text) {
    std::filesystem::create_directories((folder_.path() / file).parent_path());
    std::ofstream(folder_.path() / file) << text;
  }
  std::uint64_t available() { return available_memory(folder_.path() / "proc", folder_.path() / "cgroup"); }

 private:
  TemporaryFolder folder_{"lockstep-test"};
};

TEST_F(AvailableMemory, IsTheMachinesWhereNoGroupLimitsIt) {
  write("proc/meminfo", "MemTotal:       24000000 kB\nMemFree:   1 kB\nMemAvailable:   2048 kB\nBuffers: 3 kB\n");
  EXPECT_EQ(available(), 2 * kMiB);
  write("proc/self/cgroup", "0::/job\n");
  write("cgroup/job/memory.max", "max\n");
  write("cgroup/job/memory.current", "1\n");
  EXPECT_EQ(available(), 2 * kMiB);
}

TEST_F(AvailableMemory, IsWhatTheTightestGroupLeaves) {
  write("proc/meminfo", "MemAvailable:   1048576 kB\n");
  write("proc/self/cgroup", "1:name=systemd:/x\n0::/outer/inner\n");
  write("cgroup/outer/memory.max", "104857600\n");     // 100 MiB
  write("cgroup/outer/memory.current", "94371840\n");  // 90 MiB, of which 30 MiB are files
  write("cgroup/outer/memory.stat", "anon 5\ninactive_file 20971520\nactive_file 10485760\n");
  write("cgroup/outer/inner/memory.max", "83886080\n");  // 80 MiB
  write("cgroup/outer/inner/memory.current", "20971520\n");
  EXPECT_EQ(available(), 40 * kMiB);
  write("cgroup/outer/inner/memory.current", "125829120\n");  // over its limit
  EXPECT_EQ(available(), 0U);
}

TEST_F(AvailableMemory, IsNoLimitWhereNothingIsKnown) {
  EXPECT_EQ(available(), std::numeric_limits<std::uint64_t>::max());
  EXPECT_GT(available_memory(), kMiB);
}

TEST_F(AvailableMemory, IsWhatALimitOfThisProcessLeaves) {
  write("proc/meminfo", "MemAvailable:   1048576 kB\n");
  // A limit that this test does not meet itself, though AddressSanitizer's memory counts: 64 MiB above the data.
  constexpr std::uint64_t kLimit = std::uint64_t{64} << 40;
  write("proc/self/status",
        fmt::format("Name:\ttest\nVmSize:\t  300000 kB\nVmData:\t  {} kB\n", kLimit / 1024 - 65536));
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_DATA, &before), 0);
  rlimit tight = before;
  tight.rlim_cur = kLimit;
  ASSERT_EQ(::setrlimit(RLIMIT_DATA, &tight), 0);
  const auto left = available();
  ASSERT_EQ(::setrlimit(RLIMIT_DATA, &before), 0);
  EXPECT_EQ(left, 64 * kMiB);
}

}  // namespace
}  // namespace lockstep::test
