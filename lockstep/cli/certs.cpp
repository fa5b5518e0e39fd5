// `lockstep certs init`: certificates for users without a certificate authority.
#include <lockstep/cli/command.h>
#include <lockstep/net/certificates/certificates.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

namespace lockstep::cli {
namespace {

constexpr const char* kCertsFooter =
    "Makes an authority in DIR and, in DIR/NODE for each node, certificates with their keys (server.p12, client.p12),\n"
    "their password, and a config.json that names them. Copy DIR/NODE to that node, and there set\n"
    "  cluster: {enable_ssl: true, config_file_path: DIR/NODE/config.json}\n"
    "(or LOCKSTEP_ENABLE_SSL=1 and LOCKSTEP_CLUSTER_CONFIG). Nodes are named as in MS_SCHED_HOST, with which workers\n"
    "connect to the scheduler. DIR/ca.key signs certificates: it belongs on no node.\n"
    "\n"
    "Examples:\n"
    "  lockstep certs init certs                              one machine: localhost\n"
    "  lockstep certs init certs --nodes 10.0.0.1,10.0.0.2";

struct CertsArguments {
  std::string folder;
  std::vector<std::string> nodes = {"localhost"};
  int days = 365;
};

int init(const CertsArguments& arguments) {
  net::init_certificates(arguments.folder, arguments.nodes, arguments.days);
  fmt::print("{0}/ca.crt and ca.key: the authority; keep ca.key off the nodes\n", arguments.folder);
  for (const auto& node : arguments.nodes) {
    fmt::print("{}/{}/: for that node; cluster.config_file_path is its config.json\n", arguments.folder, node);
  }
  std::fflush(stdout);
  return kOk;
}

}  // namespace

void add_certs(CLI::App& app, Action& chosen) {
  CLI::App* certs = app.add_subcommand("certs", "Make certificates for TLS between workers and scheduler");
  certs->require_subcommand(1);
  CLI::App* command = certs->add_subcommand("init", "Make an authority, and certificates for each node");
  const auto arguments = std::make_shared<CertsArguments>();
  command->add_option("DIR", arguments->folder, "A folder; made if missing")->required()->type_name("");
  command->add_option("--nodes", arguments->nodes, "Names or addresses of the nodes")
      ->delimiter(',')
      ->type_name("A,B,...")
      ->capture_default_str();
  command->add_option("--days", arguments->days, "For how long the nodes' certificates are good")
      ->check(CLI::Range(1, 3650))
      ->type_name("N")
      ->capture_default_str();
  command->footer(kCertsFooter);
  command->callback([=, &chosen] { chosen = [=] { return init(*arguments); }; });
}

}  // namespace lockstep::cli
