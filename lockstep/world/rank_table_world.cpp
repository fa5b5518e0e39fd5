// The world of RANK_ID and related variables, with a rank table.
#include <lockstep/base/error.h>
#include <lockstep/world/detect.h>
#include <lockstep/world/launcher_variables.h>
#include <lockstep/world/rank_table.h>

#include <fmt/format.h>

#include <algorithm>

namespace lockstep::detail {
namespace {

// The rendezvous port is this number plus the device of rank 0: a device, and therefore also the port, belongs to one
// job at a time.
constexpr std::uint16_t kFirstPort = 29600;

constexpr std::int64_t kMost = 65536;

[[noreturn]] void fail_without_table(const World& world) {
  fail(ErrorKind::environment, "world",
       "{} needs RANK_TABLE_FILE, which lists the hosts of the ranks; make one with 'lockstep rank-table'",
       world.evidence);
}

World read_rank(const Environment& environment, const std::optional<RankTable>& table) {
  const auto rank = find_integer(environment, "RANK_ID", 0, kMost);
  const auto given_size = find_integer(environment, "RANK_SIZE", 1, kMost);
  if (!rank) {
    fail(ErrorKind::environment, "world",
         "{} is set but RANK_ID is not; set RANK_ID to this process's rank, or unset {}",
         table ? "RANK_TABLE_FILE" : "RANK_SIZE", table ? "RANK_TABLE_FILE" : "RANK_SIZE");
  }
  if (!table && !given_size) {
    fail(ErrorKind::environment, "world",
         "RANK_ID is set but neither RANK_SIZE nor RANK_TABLE_FILE is; set both, or unset RANK_ID");
  }
  const auto size = table ? static_cast<std::int64_t>(table->devices.size()) : *given_size;
  if (given_size && *given_size != size) {
    fail(ErrorKind::environment, "world", "RANK_SIZE={} contradicts the {} devices in {}; they must be equal",
         *given_size, size, table->file);
  }
  if (*rank >= size) {
    fail(ErrorKind::environment, "world", "RANK_ID={} is not below {}{}; ranks count from 0 to {}", *rank,
         table ? "the number of devices in " + table->file + ", " : "RANK_SIZE=", size, size - 1);
  }
  World world;
  world.launcher = "rank_table";
  world.rank = static_cast<int>(*rank);
  world.size = static_cast<int>(size);
  world.evidence = fmt::format("RANK_ID={} RANK_SIZE={}", *rank, size);
  return world;
}

void check_device(const Environment& environment, const RankTableDevice& mine, const RankTable& table) {
  const auto device = find_integer(environment, "DEVICE_ID", 0, kMost);
  if (!device || *device == mine.device) return;
  throw Error(ErrorKind::environment, "rank_table",
              fmt::format("DEVICE_ID={} contradicts the table, where rank_id \"{}\" has device_id \"{}\"; give each "
                          "rank the device of its entry",
                          *device, mine.rank, mine.device),
              {table.file, mine.position.line});
}

// DEVICE_NUM may be larger than the local size: common scripts set it to the number of devices of the host, not of the
// job.
void check_device_count(const Environment& environment, int local_size) {
  const auto count = find_integer(environment, "DEVICE_NUM", 1, kMost);
  if (!count || *count >= local_size) return;
  fail(
      ErrorKind::environment, "world",
      "DEVICE_NUM={} is below the {} devices of this host in RANK_TABLE_FILE; it is the number of devices the host has",
      *count, local_size);
}

void place_on_server(const Environment& environment, const RankTable& table, World& world) {
  const RankTableDevice& mine = table.devices[static_cast<std::size_t>(world.rank)];
  check_device(environment, mine, table);
  const auto neighbours = table.of_server(mine.server);
  check_device_count(environment, static_cast<int>(neighbours.size()));
  world.local_size = static_cast<int>(neighbours.size());
  world.local_rank = static_cast<int>(
      std::count_if(neighbours.begin(), neighbours.end(), [&](const auto& one) { return one.rank < world.rank; }));
  world.device = mine.device;
  add_evidence(world, "DEVICE_ID", fmt::to_string(mine.device));
  add_evidence(world, "RANK_TABLE_FILE", table.file);
}

void meet_at_first_rank(const Environment& environment, const RankTable& table, World& world) {
  if (meet_by_init_method(environment, world)) return;
  const RankTableDevice& first = table.devices.front();
  world.rendezvous = Rendezvous::tcp;
  world.master_addr = find_master_addr(environment).value_or(first.address);
  world.master_port = find_master_port(environment).value_or(static_cast<std::uint16_t>(kFirstPort + first.device));
  add_master(world);
}

}  // namespace

std::optional<std::string> rank_table_file(const Environment& environment) {
  for (const auto* name : {"RANK_TABLE_FILE", "MINDSPORE_HCCL_CONFIG_PATH"}) {
    if (auto file = find(environment, name); file && !file->empty()) return file;
  }
  return std::nullopt;
}

std::optional<World> world_of_rank_table(const Environment& environment, const std::optional<RankTable>& table) {
  if (!table && !find(environment, "RANK_ID") && !find(environment, "RANK_SIZE")) return std::nullopt;
  World world = read_rank(environment, table);
  if (table) place_on_server(environment, *table, world);
  if (world.size == 1) return world;
  if (!table) fail_without_table(world);
  meet_at_first_rank(environment, *table, world);
  return world;
}

std::optional<World> detect_rank_table(const Environment& environment) {
  std::optional<RankTable> table;
  if (const auto file = rank_table_file(environment)) table = load_rank_table(*file);
  return world_of_rank_table(environment, table);
}

}  // namespace lockstep::detail
