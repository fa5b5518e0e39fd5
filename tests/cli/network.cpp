#include "cli/network.h"

#include "cli/two_nodes.h"

#include <gtest/gtest.h>

namespace lockstep::test {
namespace {

std::filesystem::path files_of(int host) { return "/etc/netns/" + TwoHosts::interface(host); }

}  // namespace

void ip_on(int host, Words words) {
  words.insert(words.begin(), "ip");
  const auto ran = run_program(TwoHosts::on(host, words));
  ASSERT_TRUE(ran.status.ok()) << ran.err;
}

void add_interface(int host, const std::string& name, const std::string& address) {
  ip_on(host, {"link", "add", name, "type", "veth", "peer", "name", "inside"});
  ip_on(host, {"addr", "add", address + "/24", "dev", name});
  ip_on(host, {"link", "set", name, "up"});
}

void lose_packets(int host, const std::string& address) {
  const auto cable = TwoHosts::interface(host);
  ip_on(host, {"route", "add", address, "dev", cable});
  // Nobody's: whoever receives a packet for it drops it.
  ip_on(host, {"neigh", "add", address, "lladdr", "02:00:00:00:00:99", "dev", cable});
}

Environment over(const std::string& interface) { return {{"LOCKSTEP_SOCKET_IFNAME", interface}}; }

HostsFiles::HostsFiles(const std::array<std::string, 2>& texts) {
  for (const int host : {0, 1}) {
    std::filesystem::create_directories(files_of(host));
    write_file(files_of(host) / "hosts", "127.0.0.1 localhost\n" + texts[static_cast<std::size_t>(host)]);
  }
}

HostsFiles::~HostsFiles() {
  std::error_code ignored;
  for (const int host : {0, 1}) std::filesystem::remove_all(files_of(host), ignored);
}

}  // namespace lockstep::test
