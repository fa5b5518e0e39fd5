#include "launchers/ssh_hosts.h"

#include <lockstep/base/error.h>

#include <fmt/format.h>
#include <unistd.h>

#include <thread>

namespace lockstep::test {
namespace {

constexpr const char* kSshd = "/usr/sbin/sshd";
constexpr auto kReachLimit = std::chrono::seconds(30);

// In the mount namespace that `ip netns exec` made: hosts know each other by name, and sshd finds the folder it wants.
constexpr const char* kEnterHost = R"(hostname "$1"
mount --bind "$2" /etc/hosts
mount -t tmpfs none /run
mkdir -m 755 /run/sshd
shift 2
exec "$@"
)";

constexpr const char* kServer = R"(Port 2222
HostKey {0}/key
AuthorizedKeysFile {0}/key.pub
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
PermitRootLogin yes
)";

constexpr const char* kClient = R"(Host *
  Port 2222
  IdentityFile {0}/key
  UserKnownHostsFile {0}/known_hosts
  StrictHostKeyChecking accept-new
  BatchMode yes
  LogLevel ERROR
)";

std::string what_is_missing(const TwoHosts& namespaces) {
  if (!namespaces.made()) return "network namespaces cannot be made here (needs root and iproute2)";
  if (::access(kSshd, X_OK) != 0) return "there is no /usr/sbin/sshd (Debian: openssh-server)";
  return {};
}

}  // namespace

SshHosts::SshHosts() : folder_("lockstep-ssh"), missing_(what_is_missing(namespaces_)) {
  if (!missing_.empty()) return;
  const auto file = [&](const char* name) { return folder_.path() / name; };
  const auto made = run_program({"ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", file("key")});
  if (!made.status.ok()) fail(ErrorKind::io, "test", "ssh-keygen: {}", made.err);
  write_file(file("enter_host"), kEnterHost);
  write_file(file("server"), fmt::format(kServer, folder_.path().string()));
  write_file(file("client"), fmt::format(kClient, folder_.path().string()));
  write_file(file("hosts"), fmt::format("127.0.0.1 localhost\n{} {}\n{} {}\n", TwoHosts::address(0), name(0),
                                        TwoHosts::address(1), name(1)));
  for (const int host : {0, 1}) start_sshd(host);
  for (const int host : {0, 1}) wait_until_reached(host);
}

std::string SshHosts::name(int host) { return host == 0 ? "hosta" : "hostb"; }

Words SshHosts::on(int host, Words words) const {
  words.insert(words.begin(),
               {"unshare", "--uts", "sh", "-e", folder_.path() / "enter_host", name(host), folder_.path() / "hosts"});
  return TwoHosts::on(host, std::move(words));
}

std::string SshHosts::ssh() const { return fmt::format("ssh -F {}/client", folder_.path().string()); }

Environment SshHosts::for_mpirun() const {
  return {{"OMPI_MCA_plm_rsh_agent", ssh()},
          {"OMPI_MCA_oob_tcp_if_include", "10.77.0.0/24"},
          {"OMPI_ALLOW_RUN_AS_ROOT", "1"},
          {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"}};
}

void SshHosts::start_sshd(int host) {
  ChildOptions options;
  options.arguments =
      on(host, {kSshd, "-D", "-E", folder_.path() / (name(host) + ".log"), "-f", folder_.path() / "server"});
  options.environment = plain_environment();
  sshds_.emplace_back(options);
}

void SshHosts::wait_until_reached(int host) {
  const auto deadline = std::chrono::steady_clock::now() + kReachLimit;
  Captured last;
  while (std::chrono::steady_clock::now() < deadline) {
    last = run_program(on(1 - host, {"sh", "-c", ssh() + " " + name(host) + " hostname"}));
    if (last.status.ok() && last.out == name(host) + "\n") return;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  fail(ErrorKind::io, "test", "{} is not reached by ssh: {}{}", name(host), last.err,
       read_file(folder_.path() / (name(host) + ".log")));
}

}  // namespace lockstep::test
