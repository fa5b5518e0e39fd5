#include "launchers/slurm_cluster.h"

#include <lockstep/base/error.h>

#include <fmt/format.h>
#include <pwd.h>
#include <unistd.h>

#include <fstream>
#include <random>
#include <thread>

#include "cli/two_nodes.h"
#include "support/port.h"

namespace lockstep::test {
namespace {

constexpr std::chrono::seconds kSlurmLimit(60);

// The plugins that need no cgroups, no systemd and no rights. cgroup/v1 is loaded whatever is asked for, and does
// nothing.
constexpr const char* kConfiguration = R"(ClusterName=lockstep
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
MpiDefault=none
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SwitchType=switch/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=batch_sched_delay=0,sched_interval=2
ReturnToService=2
KillWait=2
MailProg=/bin/true
SlurmdParameters=config_overrides
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/%n.log
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
)";

// The first process of the namespace: when it ends, the kernel ends all others in it.
constexpr const char* kDaemons = R"(trap exit TERM
exec >daemons.log 2>&1
munged --foreground --socket=munge.socket --key-file=key --pid-file=munged.pid --log-file=munged.log \
  --seed-file=seed --num-threads=2 &
until [ -S munge.socket ]; do kill -0 $! || exit; sleep 0.02; done
slurmctld -D &
for node; do slurmd -D -N "$node" & done
wait
)";

std::string user_name() {
  const passwd* const user = ::getpwuid(::geteuid());
  return user != nullptr ? user->pw_name : fmt::to_string(::geteuid());
}

Words in_namespace(Words words) {
  Words command = {"unshare", "--pid", "--fork", "--kill-child", "--mount-proc"};
  if (::geteuid() != 0) command.insert(command.end(), {"--user", "--map-current-user"});
  command.insert(command.end(), words.begin(), words.end());
  return command;
}

void write_random_key(const std::filesystem::path& path) {
  std::random_device random;
  std::string key(128, '\0');
  for (char& c : key) c = static_cast<char>(random());
  write_file(path, key);
  std::filesystem::permissions(path, std::filesystem::perms::owner_read);
}

}  // namespace

std::optional<std::string> SlurmCluster::obstacle() {
  Environment path = environment_of_scripts();
  path["PATH"] += ":/usr/sbin:/sbin";
  for (const auto* name : {"munged", "slurmctld", "slurmd", "srun", "sbatch", "scontrol", "unshare"}) {
    if (!run_program({"sh", "-c", "command -v \"$0\"", name}, path).status.ok()) {
      return fmt::format("there is no {} (Debian: slurm-wlm, munge, util-linux)", name);
    }
  }
  const auto tried = run_program(in_namespace({"true"}), path);
  if (!tried.status.ok()) return "processes cannot have a namespace of their own: " + tried.err;
  return std::nullopt;
}

SlurmCluster::SlurmCluster(int nodes) : nodes_(nodes), folder_("lockstep-slurm") {
  configure();
  ChildOptions daemons;
  daemons.arguments = in_namespace({"sh", "-c", kDaemons, "daemons"});
  for (int index = 0; index < nodes_; ++index) daemons.arguments.push_back(node(index));
  daemons.environment = environment();
  daemons.working_directory = folder_.path();
  daemons_.emplace(daemons);
  wait_until_ready();
}

SlurmCluster::~SlurmCluster() {
  // unshare ignores SIGTERM and ends after the namespace has.
  if (daemons_) daemons_->stop(std::chrono::seconds(10));
}

std::string SlurmCluster::node(int index) { return fmt::format("0x7f{:06}", index + 1); }  // 127.0.0.1, 127.0.0.2

void SlurmCluster::configure() {
  // munged insists that everybody can reach its socket.
  using std::filesystem::perms;
  permissions(folder_.path(), perms::owner_all | perms::group_exec | perms::others_exec);
  control_port_ = free_port();
  std::string text = fmt::format(fmt::runtime(kConfiguration), fmt::arg("port", control_port_),
                                 fmt::arg("user", user_name()), fmt::arg("folder", folder_.path().string()));
  for (int index = 0; index < nodes_; ++index) {
    std::filesystem::create_directory(file(node(index)));
    text += fmt::format("NodeName={} NodeHostname=localhost NodeAddr=127.0.0.1 Port={} CPUs=8 State=UNKNOWN\n",
                        node(index), free_port());
  }
  std::filesystem::create_directory(file("state"));
  write_file(file("slurm.conf"), text);
  write_file(file("cgroup.conf"), "CgroupPlugin=cgroup/v1\n");
  write_random_key(file("key"));
}

void SlurmCluster::wait_until_ready() {
  const auto deadline = std::chrono::steady_clock::now() + kSlurmLimit;
  const std::string ready = fmt::format("idle {}\n", nodes_);
  while (run({"sinfo", "--noheader", "--format=%T %D"}).out != ready) {
    if (daemons_->poll() || std::chrono::steady_clock::now() > deadline) {
      fail(ErrorKind::timeout, "test", "Slurm's nodes do not get ready within {} s\n{}", kSlurmLimit.count(), logs());
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

std::string SlurmCluster::logs() const {
  std::string text;
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
    if (entry.path().extension() == ".log") text += entry.path().string() + ":\n" + read_file(entry.path());
  }
  return text;
}

Environment SlurmCluster::environment(const Environment& more) const {
  Environment environment = environment_of_scripts();
  environment["PATH"] += ":/usr/sbin:/sbin";
  environment["SLURM_CONF"] = file("slurm.conf");
  for (const auto& [name, value] : more) environment[name] = value;
  return environment;
}

Captured SlurmCluster::run(Words arguments, const Environment& more) const {
  ChildOptions child;
  child.arguments = std::move(arguments);
  child.environment = environment(more);
  return run_and_capture(child, kSlurmLimit);
}

Captured SlurmCluster::srun(Words arguments, const Environment& more) const {
  arguments.insert(arguments.begin(), {"srun", "--kill-on-bad-exit=1"});
  return run(std::move(arguments), more);
}

}  // namespace lockstep::test
