// `lockstep rank-table`; tests/world has the rules.
#include "cli/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(RankTableCommand, WritesATableWithTheAddressesOfItsDevices) {
  const TemporaryFolder folder;
  write_file(folder.path() / "hccn.conf", "address_4=192.168.100.100\naddress_5=192.168.101.100\n");
  const auto made = lockstep({"rank-table", "--device_num", "[4,6)", "--server_ip", "127.0.0.1", "--hccn_conf",
                              folder.path() / "hccn.conf", "--out", folder.path()});
  ASSERT_TRUE(made.status.ok()) << made.err;
  EXPECT_EQ(made.out, "hccl_2p_45_127.0.0.1.json\n");
  EXPECT_EQ(made.err, "");
  EXPECT_THAT(read_file(folder.path() / "hccl_2p_45_127.0.0.1.json"),
              HasSubstr("                    \"device_id\": \"5\",\n"
                        "                    \"device_ip\": \"192.168.101.100\",\n"
                        "                    \"rank_id\": \"1\"\n"));
}

TEST(RankTableCommand, FindsThisHostsAddressAndJoinsSeveral) {
  const TemporaryFolder folder;
  const auto mine = lockstep({"rank-table", "--out", folder.path()});
  ASSERT_TRUE(mine.status.ok()) << mine.err;
  EXPECT_THAT(mine.out, AllOf(HasSubstr("hccl_8p_01234567_"), HasSubstr(".json\n")));
  const std::string name = mine.out.substr(0, mine.out.size() - 1);
  ASSERT_TRUE(lockstep({"rank-table", "--server_ip", "10.0.0.99", "--out", folder.path()}).status.ok());
  const auto joined = lockstep(
      {"rank-table", "--out", folder.path(), folder.path() / name, folder.path() / "hccl_8p_01234567_10.0.0.99.json"});
  EXPECT_TRUE(joined.status.ok()) << joined.err;
  EXPECT_EQ(joined.out, "hccl_2s_16p.json\n");
  EXPECT_THAT(read_file(folder.path() / "hccl_2s_16p.json"), HasSubstr("\"rank_id\": \"15\""));
}

TEST(RankTableCommand, RefusesGroupsThatCannotBe) {
  const TemporaryFolder folder;
  const auto refused = [&](const std::string& device_num, const std::string& words) {
    const auto ran = lockstep({"rank-table", "--device_num", device_num, "--server_ip", "h", "--out", folder.path()});
    EXPECT_EQ(ran.status, (ExitStatus{2, 0})) << device_num;
    EXPECT_THAT(ran.err, AllOf(HasSubstr("lockstep: error: [rank_table]"), HasSubstr(words)));
  };
  refused("[0,3)", "1, 2, 4 or 8");
  refused("[2,6)", "another network");
  refused("0-8", "'0-8'");
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

}  // namespace
}  // namespace lockstep::test
