#include <lockstep/base/temporary_folder.h>
#include <lockstep/world/host_addresses.h>
#include <lockstep/world/rank_table.h>

#include <fmt/format.h>

#include <fstream>

#include "world/world_cases.h"

namespace lockstep {
namespace {

using test::brief;
using test::environment_of;
using test::expect_error;

// The addresses in the published example.
constexpr std::string_view kConf =
    "address_0=192.168.100.101\nnetmask_0=255.255.255.0\naddress_1=192.168.101.101\naddress_2=192.168.102.101\n"
    "address_3=192.168.103.101\naddress_4=192.168.100.100\naddress_5=192.168.101.100\naddress_6=192.168.102.100\n"
    "address_7=192.168.103.100\n";

// The published file for devices 4-7, with the indentation hccl_tools.py gives it.
constexpr std::string_view kFour = R"({
    "version": "1.0",
    "server_count": "1",
    "server_list": [
        {
            "server_id": "127.0.0.1",
            "device": [
                {
                    "device_id": "4",
                    "device_ip": "192.168.100.100",
                    "rank_id": "0"
                },
                {
                    "device_id": "5",
                    "device_ip": "192.168.101.100",
                    "rank_id": "1"
                },
                {
                    "device_id": "6",
                    "device_ip": "192.168.102.100",
                    "rank_id": "2"
                },
                {
                    "device_id": "7",
                    "device_ip": "192.168.103.100",
                    "rank_id": "3"
                }
            ],
            "host_nic_ip": "reserve"
        }
    ],
    "status": "completed"
}
)";

// The generation without a version, two ranks on two devices.
constexpr std::string_view kOld =
    R"({"board_id": "0x0000", "chip_info": "910", "deploy_mode": "lab", "group_count": "1",
"group_list": [{"device_num": "2", "server_num": "1", "group_name": "", "instance_count": "2", "instance_list": [
  {"devices": [{"device_id": "2", "device_ip": "192.168.102.101"}], "rank_id": "1", "server_id": "10.0.0.7"},
  {"devices": [{"device_id": "1", "device_ip": "192.168.101.101"}], "rank_id": "0", "server_id": "10.0.0.7"}]}],
"para_plane_nic_location": "device", "para_plane_nic_name": ["eth1", "eth2"], "para_plane_nic_num": "2",
"status": "completed"})";

RankTableFile write_table(std::string device_num, std::string server = "127.0.0.1",
                          std::string visible = "0,1,2,3,4,5,6,7") {
  return make_rank_table({std::move(device_num), std::move(visible), std::move(server)}, parse_device_addresses(kConf));
}

RankTable table_of(std::string device_num, std::string server = "127.0.0.1") {
  const auto file = write_table(std::move(device_num), std::move(server));
  return parse_rank_table(file.text, file.name);
}

std::string replaced(std::string_view text, std::string_view from, std::string_view to) {
  std::string result(text);
  EXPECT_NE(result.find(from), std::string::npos) << from;
  return result.replace(result.find(from), from.size(), to);
}

std::string entries_of(const RankTable& table) {
  std::string text;
  for (const auto& one : table.devices) text += fmt::format("{}:{}/{} ", one.rank, one.server, one.device);
  return text;
}

TEST(RankTableWriter, WritesThePublishedFiles) {
  const auto four = write_table("[4,8)");
  EXPECT_EQ(four.name, "hccl_4p_4567_127.0.0.1.json");
  EXPECT_EQ(four.text, kFour);
  const auto eight = write_table("[0,8)");
  EXPECT_EQ(eight.name, "hccl_8p_01234567_127.0.0.1.json");
  const auto table = parse_rank_table(eight.text, eight.name);
  ASSERT_EQ(table.devices.size(), 8u);
  for (int rank = 0; rank < 8; ++rank) {
    const auto& one = table.devices[static_cast<std::size_t>(rank)];
    EXPECT_EQ(one.device, rank);
    EXPECT_EQ(one.device_ip, fmt::format("192.168.{}.{}", 100 + rank % 4, rank < 4 ? 101 : 100));
  }
}

TEST(RankTableWriter, CountsLogicalDevicesAndWritesPhysicalOnes) {
  const auto file = write_table("[0,4)", "10.0.0.1", "4,5,6,7");
  EXPECT_EQ(file.name, "hccl_4p_0123_10.0.0.1.json");
  EXPECT_EQ(entries_of(parse_rank_table(file.text, file.name)), "0:10.0.0.1/4 1:10.0.0.1/5 2:10.0.0.1/6 3:10.0.0.1/7 ");
}

TEST(RankTableWriter, RefusesWhatNoGroupCanBe) {
  for (const auto* range : {"", "0,8", "[0,8]", "[0;8)", "[-1,4)", "[4,4)", "[5,4)", "[0,9)", "[a,b)", "[0,8)x"}) {
    expect_error(ErrorKind::invalid_argument, {fmt::format("'{}'", range), "0 <= FIRST < END <= 8", "[4,8)"},
                 [&] { write_table(range); });
  }
  for (const auto* visible : {"", "0,", "0,0", "8", "0,x"}) {
    expect_error(ErrorKind::invalid_argument, {"--visible_devices", "different devices from 0 to 7"},
                 [&] { write_table("[0,1)", "h", visible); });
  }
  expect_error(ErrorKind::invalid_argument, {"needs 8 devices", "lists 2"}, [&] { write_table("[4,8)", "h", "4,5"); });
  expect_error(ErrorKind::config, {"3 devices (0, 1, 2)", "1, 2, 4 or 8"}, [&] { write_table("[0,3)"); });
  expect_error(ErrorKind::config, {"\"4\"", "another network"}, [&] { write_table("[2,6)"); });
  expect_error(ErrorKind::invalid_argument, {"device 7", "address_7="}, [&] {
    make_rank_table({"[7,8)", "0,1,2,3,4,5,6,7", "h"}, {{0, "a"}});
  });
}

TEST(RankTableWriter, JoinsServersInTheOrderGiven) {
  const auto merged = merge_rank_tables({table_of("[0,8)", "10.0.0.1"), table_of("[0,8)", "10.0.0.2")});
  EXPECT_EQ(merged.name, "hccl_2s_16p.json");
  const auto table = parse_rank_table(merged.text, merged.name);
  ASSERT_EQ(table.devices.size(), 16u);
  EXPECT_EQ(table.devices[9].server, "10.0.0.2");
  EXPECT_EQ(table.devices[9].device, 1);
  expect_error(ErrorKind::config, {"\"10.0.0.1\"", "is in hccl_8p_01234567_10.0.0.1.json too"}, [] {
    merge_rank_tables({table_of("[0,8)", "10.0.0.1"), table_of("[0,8)", "10.0.0.1")});
  });
  expect_error(ErrorKind::config,
               {"\"10.0.0.2\" lists 4", "over several hosts", "all 8", "hccl_4p_4567_10.0.0.2.json:11"}, [] {
                 merge_rank_tables({table_of("[0,8)", "10.0.0.1"), table_of("[4,8)", "10.0.0.2")});
               });
}

TEST(RankTable, ReadsBothGenerationsAndNumbersInEitherForm) {
  EXPECT_EQ(entries_of(parse_rank_table(kOld, "old.json")), "0:10.0.0.7/1 1:10.0.0.7/2 ");
  EXPECT_EQ(entries_of(parse_rank_table(R"({"server_list": [{"server_id": "node-a", "server_ip": "10.1.1.1",
    "device": [{"device_id": 3, "rank_id": 0}]}], "status": "completed"})",
                                        "t.json")),
            "0:node-a/3 ");
  EXPECT_EQ(
      parse_rank_table("{\t\"server_list\": [\n\t{\"server_id\": \"a\",\n\t\t\"device\":\t[{\"device_id\": \"0\", "
                       "\"rank_id\": \"0\"}]}],\n\t\"status\": \"completed\"}",
                       "tabs.json")
          .devices.size(),
      1u);
}

TEST(RankTable, NamesFileLineRuleAndMend) {
  struct Case {
    std::string from, to;
    std::vector<std::string> words;
  };
  const std::vector<Case> cases = {
      {R"("rank_id": "3")",
       R"("rank_id": "9")",
       {"[rank_table] rank_id \"9\" in server_list[0].device[3] is not below the 4 devices listed; ranks must be 0..3 "
        "(t.json:26)"}},
      {R"("rank_id": "3")", R"("rank_id": "1")", {"\"1\"", "occurs twice, first in line 16", "t.json:26"}},
      {R"("device_id": "7")", R"("device_id": "5")", {"device_id \"5\"", "twice", "server_list[0].device[1]"}},
      {R"("device_id": "7")",
       R"("device_id": "3")",
       {"device_id \"3\" in server_list[0].device[3]", "another network", "4, 5, 6, 7", "t.json:26"}},
      {R"("device_id": "7")", R"("device_id": "8")", {"server_list[0].device[3].device_id", "0 to 7", "t.json:24"}},
      {R"("device_id": "7")", R"("device_id": "x")", {"whole number", "\"x\"", "t.json:24"}},
      {R"("device_id": "7",)", "", {"server_list[0].device[3] has no \"device_id\"", "lockstep rank-table"}},
      {R"("server_count": "1")", R"("server_count": "2")", {"server_count is 2", "has 1", "t.json:3"}},
      {R"("server_id": "127.0.0.1",)", "", {"server_list[0] has no \"server_id\"", "t.json:5"}},
      {R"("status": "completed")", R"("status": "initializing")", {"\"completed\"", "\"initializing\"", "t.json:32"}},
      {R"("status": "completed")", R"("state": "completed")", {"the table has no \"status\""}},
      {R"("server_list": [)", R"("server_list": 5, "x": [)", {"server_list must be a list", "t.json:4"}},
      {R"("device": [)", R"("device": [], "x": [)", {"server_list[0].device", "an empty one"}},
      {"],\n    \"status\"", ",\n    \"status\"", {"not valid JSON", "t.json:"}},
  };
  for (const auto& [from, to, words] : cases) {
    const auto error = expect_error(ErrorKind::config, {},
                                    [&, f = from, t = to] { parse_rank_table(replaced(kFour, f, t), "t.json"); });
    for (const auto& word : words) test::expect_words(error ? error->what() : "", {word});
  }
  expect_error(ErrorKind::config, {"instance_count is 3", "has 2"},
               [] { parse_rank_table(replaced(kOld, R"("instance_count": "2")", R"("instance_count": "3")"), "o"); });
  expect_error(ErrorKind::config, {"a JSON object", "t.json"}, [] { parse_rank_table("[]", "t.json"); });
  expect_error(ErrorKind::environment, {"/no/such/table.json", "No such file", "lockstep rank-table"},
               [] { load_rank_table("/no/such/table.json"); });
}

// ---- from variables and a table to a world

TEST(WorldRankTable, FindsItsPlaceInTheTable) {
  const auto world_of = [](std::string_view variables, const std::optional<RankTable>& table) {
    const auto world = detail::world_of_rank_table(environment_of(variables), table);
    return world ? brief(*world) : "";
  };
  const auto four = parse_rank_table(kFour, "t.json");
  EXPECT_EQ(world_of("RANK_ID=2 RANK_SIZE=4 DEVICE_ID=6 DEVICE_NUM=8", four),
            "rank_table 2/4 local 2/4 tcp 127.0.0.1:29604");
  EXPECT_EQ(world_of("RANK_ID=2", four), "rank_table 2/4 local 2/4 tcp 127.0.0.1:29604");
  EXPECT_EQ(world_of("RANK_ID=2 MASTER_ADDR=h MASTER_PORT=5", four), "rank_table 2/4 local 2/4 tcp h:5");
  EXPECT_EQ(world_of("RANK_ID=2 LOCKSTEP_INIT_METHOD=file:///m", four), "rank_table 2/4 local 2/4 file /m");
  EXPECT_EQ(world_of("RANK_ID=0 RANK_SIZE=1", std::nullopt), "rank_table 0/1 local 0/1 alone");
  EXPECT_EQ(world_of("RANK_ID=0", table_of("[3,4)")), "rank_table 0/1 local 0/1 alone");
  EXPECT_EQ(world_of("DEVICE_ID=3 DEVICE_NUM=8", std::nullopt), "");
  EXPECT_EQ(detail::world_of_rank_table(environment_of("RANK_ID=2"), four)->device, 6);

  const auto merged = merge_rank_tables({table_of("[0,8)", "10.0.0.2"), table_of("[0,8)", "10.0.0.1")});
  EXPECT_EQ(world_of("RANK_ID=9 RANK_SIZE=16 DEVICE_ID=1", parse_rank_table(merged.text, merged.name)),
            "rank_table 9/16 local 1/8 tcp 10.0.0.2:29600");
}

TEST(WorldRankTable, RefusesWhatContradictsTheTable) {
  const auto four = parse_rank_table(kFour, "t.json");
  const auto expect_refused = [](std::string_view variables, const std::optional<RankTable>& table,
                                 std::initializer_list<std::string_view> words) {
    SCOPED_TRACE(variables);
    expect_error(ErrorKind::environment, words, [&] { detail::world_of_rank_table(environment_of(variables), table); });
  };
  expect_refused("", four, {"RANK_TABLE_FILE is set", "RANK_ID is not", "unset RANK_TABLE_FILE"});
  expect_refused("RANK_SIZE=4", std::nullopt, {"RANK_SIZE is set", "RANK_ID is not"});
  expect_refused("RANK_ID=0", std::nullopt, {"RANK_ID is set", "RANK_SIZE nor RANK_TABLE_FILE"});
  expect_refused("RANK_ID=0 RANK_SIZE=8", std::nullopt, {"RANK_SIZE=8 needs RANK_TABLE_FILE", "lockstep rank-table"});
  expect_refused("RANK_ID=0 RANK_SIZE=8", four, {"RANK_SIZE=8", "4 devices", "t.json"});
  expect_refused("RANK_ID=4 RANK_SIZE=4", four, {"RANK_ID=4", "t.json", "0 to 3"});
  expect_refused("RANK_ID=1 RANK_SIZE=1", std::nullopt, {"RANK_ID=1", "RANK_SIZE=1"});
  expect_refused("RANK_ID=2 DEVICE_ID=2", four, {"DEVICE_ID=2", "rank_id \"2\"", "device_id \"6\"", "t.json:21"});
  expect_refused("RANK_ID=2 DEVICE_NUM=2", four, {"DEVICE_NUM=2", "4 devices of this host"});
  expect_refused("RANK_ID=x", four, {"RANK_ID='x'"});
}

TEST(WorldRankTable, IsOneOfTheLaunchers) {
  const TemporaryFolder folder;
  const std::string file = folder.path() / "t.json";
  std::ofstream(file) << kFour;
  const std::string variables = "RANK_ID=1 RANK_SIZE=4 DEVICE_ID=5 RANK_TABLE_FILE=" + file;
  const World world = detect_world(environment_of(variables));
  EXPECT_EQ(brief(world), "rank_table 1/4 local 1/4 tcp 127.0.0.1:29604");
  EXPECT_EQ(describe(world),
            "rank 1 of 4 (local 1 of 4, device 5), started by rank_table (RANK_ID=1 RANK_SIZE=4 "
            "DEVICE_ID=5 RANK_TABLE_FILE=" +
                file + " master=127.0.0.1:29604)");
  EXPECT_EQ(brief(detect_world(environment_of("RANK_ID=1 MINDSPORE_HCCL_CONFIG_PATH=" + file), "rank_table")),
            "rank_table 1/4 local 1/4 tcp 127.0.0.1:29604");
  // Launchers that start processes themselves win, and say so.
  const World torch = detect_world(environment_of(variables + " RANK=1 WORLD_SIZE=4 MASTER_ADDR=h MASTER_PORT=5"));
  EXPECT_EQ(torch.launcher, "pytorch");
  test::expect_words(torch.evidence, {"which takes precedence over rank_table"});
  test::expect_refusals({{variables + " RANK=0 WORLD_SIZE=2 MASTER_ADDR=h MASTER_PORT=5",
                          {"pytorch", "contradicts rank_table", "4 processes cannot be 2 ranks"}},
                         {variables + " RANK=2 WORLD_SIZE=4 MASTER_ADDR=h MASTER_PORT=5",
                          {"pytorch (RANK=2", "contradicts rank_table (RANK_ID=1", "rank 1 of 4"}}});
  test::expect_refusals({{"", {"rank_table", "RANK_TABLE_FILE and RANK_ID", "--launcher auto"}}}, "rank_table");
  expect_error(ErrorKind::environment, {"/no/such.json"},
               [] { detect_world(environment_of("RANK_ID=0 RANK_TABLE_FILE=/no/such.json")); });
}

// ---- addresses

TEST(HostAddresses, KnowsItsOwn) {
  const auto own = own_addresses();
  EXPECT_NE(std::find(own.begin(), own.end(), "127.0.0.1"), own.end());
  EXPECT_EQ(resolve("127.0.0.2"), std::vector<std::string>{"127.0.0.2"});
  EXPECT_EQ(resolve("no-such-host.invalid"), std::vector<std::string>{});
  EXPECT_TRUE(any_is_own({"10.9.8.7", "127.3.2.1"}, {}));
  EXPECT_TRUE(any_is_own({"10.9.8.7"}, {"10.9.8.7"}));
  EXPECT_FALSE(any_is_own({"10.9.8.7"}, {"10.9.8.6"}));
  EXPECT_FALSE(resolve(address_of_host_name()).empty());
}

}  // namespace
}  // namespace lockstep
