// `lockstep rank-table`: writes the file that RANK_TABLE_FILE names.
#include <lockstep/base/error.h>
#include <lockstep/base/files.h>
#include <lockstep/cli/command.h>
#include <lockstep/world/host_addresses.h>
#include <lockstep/world/rank_table.h>

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::cli {
namespace {

constexpr const char* kRankTableFooter =
    "Writes hccl_{N}p_{DEVICES}_{SERVER_IP}.json for this host, or with FILES hccl_{N}s_{M}p.json, which joins one\n"
    "table of each server and numbers the ranks in the order of the files. Prints the file's name.\n"
    "\n"
    "A host trains with 1, 2, 4 or 8 devices; 2 and 4 lie within 0-3 or within 4-7; several hosts take part with\n"
    "all 8 each. Where there is no /etc/hccn.conf the devices are CPU ranks, which use the host's own address.\n"
    "\n"
    "Examples:\n"
    "  lockstep rank-table --device_num \"[0,8)\"\n"
    "  lockstep rank-table --device_num \"[4,8)\" --server_ip 10.0.0.1\n"
    "  lockstep rank-table --device_num \"[0,4)\" --visible_devices 4,5,6,7\n"
    "  lockstep rank-table hccl_8p_01234567_10.0.0.1.json hccl_8p_01234567_10.0.0.2.json";

constexpr const char* kDefaultConf = "/etc/hccn.conf";

struct RankTableArguments {
  RankTableRequest request;
  std::optional<std::string> hccn_conf;
  std::string folder = ".";
  std::vector<std::string> files;
};

DeviceAddresses all_at(const std::string& address) {
  DeviceAddresses addresses;
  for (int device = 0; device < 8; ++device) addresses[device] = address;
  return addresses;
}

DeviceAddresses device_addresses(const RankTableArguments& arguments) {
  const std::string file = arguments.hccn_conf.value_or(kDefaultConf);
  if (!arguments.hccn_conf && !std::filesystem::exists(file)) {
    fmt::print(stderr, "lockstep rank-table: there is no {}; device_ip is the host's address, as CPU ranks need it\n",
               file);
    return all_at(arguments.request.server_ip);
  }
  const auto text = read_file(file);
  if (!text) fail(ErrorKind::invalid_argument, "rank_table", "cannot read {}; give another --hccn_conf", file);
  return parse_device_addresses(*text);
}

RankTableFile make(RankTableArguments arguments) {
  if (arguments.files.empty()) {
    if (arguments.request.server_ip.empty()) arguments.request.server_ip = address_of_host_name();
    return make_rank_table(arguments.request, device_addresses(arguments));
  }
  std::vector<RankTable> tables;
  for (const auto& file : arguments.files) tables.push_back(load_rank_table(file));
  return merge_rank_tables(tables);
}

int write(const RankTableArguments& arguments) {
  const RankTableFile table = make(arguments);
  const auto file = std::filesystem::path(arguments.folder) / table.name;
  require_writable_file(file, "--out");
  write_file_atomically(file, table.text);
  fmt::print("{}\n", table.name);
  return kOk;
}

}  // namespace

void add_rank_table(CLI::App& app, Action& chosen) {
  CLI::App* command = app.add_subcommand("rank-table", "Write the rank table of this host, or join those of several");
  const auto arguments = std::make_shared<RankTableArguments>();
  auto& request = arguments->request;
  auto* files =
      command->add_option("FILES", arguments->files, "Tables of one server each, to be joined")->type_name("");
  command
      ->add_option("--device_num,--device-num", request.device_num,
                   "Logical devices from FIRST to END-1; quote it for the shell")
      ->type_name("\"[FIRST,END)\"")
      ->capture_default_str()
      ->excludes(files);
  command
      ->add_option("--visible_devices,--visible-devices", request.visible_devices,
                   "The physical device of each logical one")
      ->type_name("LIST")
      ->capture_default_str()
      ->excludes(files);
  command->add_option("--server_ip,--server-ip", request.server_ip, "This host's address (default: that of its name)")
      ->type_name("ADDRESS")
      ->excludes(files);
  command
      ->add_option("--hccn_conf,--hccn-conf", arguments->hccn_conf,
                   fmt::format("File with the addresses of the devices (default: {})", kDefaultConf))
      ->type_name("FILE")
      ->excludes(files);
  command->add_option("--out", arguments->folder, "Folder to write to")->type_name("FOLDER")->capture_default_str();
  command->footer(kRankTableFooter);
  command->callback([=, &chosen] { chosen = [=] { return write(*arguments); }; });
}

}  // namespace lockstep::cli
