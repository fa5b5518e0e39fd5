// Checks of the rendezvous: the ranks that reach it, the missing ranks, and whether its port is free.
#include <lockstep/doctor/checks.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace lockstep::doctor {
namespace {

bool says(const JobFacts& job, std::string_view words) { return job.unmet.find(words) != std::string::npos; }

// The fix for each reason. The compared texts are error messages of the kernel and the resolver.
std::string fix_of_rendezvous(const JobFacts& job, const Facts& host) {
  if (says(job, "does not resolve")) {
    return fmt::format(
        "set MASTER_ADDR to the numeric address of rank 0, or add the name {} to DNS or /etc/hosts on host {}",
        job.master, host.host);
  }
  if (says(job, "Connection refused")) {
    return "nothing listens there: start rank 0, and give all ranks the same MASTER_ADDR and MASTER_PORT. If rank 0 "
           "runs in a container, start that with --net=host, or publish the port (-p)";
  }
  if (says(job, "Connection timed out")) {
    return fmt::format(
        "packets are dropped on the way: open all TCP ports between the hosts of the job in firewalls and security "
        "groups, and check that {} is an address of rank 0's host",
        job.master);
  }
  if (says(job, "unreachable") || says(job, "No route to host")) {
    return fmt::format(
        "host {} has no route to that address: see `ip route get {}` there, and give an address of rank "
        "0's host in a network that both hosts have",
        host.host, job.master);
  }
  return fmt::format(
      "check that rank 0 was started and still runs, and that host {} reaches its address and port "
      "(firewall, --net=host for containers, MASTER_ADDR)",
      host.host);
}

}  // namespace

std::vector<Finding> check_rendezvous(const JobFacts& job) {
  if (job.unmet.empty()) return {};
  const Facts& host = job.ranks.front();
  // If the port cannot be opened, or a variable is wrong, that is the reason, and another check reports it.
  if ((host.port && !host.port->problem.empty()) || !host.environment.empty()) return {};
  const auto where = host.rank == 0 ? place(job, host) : fmt::format("{} -> rank 0", place(job, host));
  return {{Severity::error, "rendezvous", where, job.unmet, fix_of_rendezvous(job, host)}};
}

std::vector<Finding> check_environment(const JobFacts& job) {
  std::vector<Finding> findings;
  for (const Facts* host : hosts_of(job)) {
    if (host->environment.empty()) continue;
    findings.push_back({Severity::error, "environment", place(job, *host), host->environment,
                        "correct the variable, or unset it, where the job is started"});
  }
  return findings;
}

std::vector<Finding> check_presence(const JobFacts& job) {
  if (job.missing.empty()) return {};
  const bool one = job.missing.size() == 1;
  return {
      {Severity::error, "presence", fmt::format("rank{} {}", one ? "" : "s", fmt::join(job.missing, ", ")),
       fmt::format("{} of {} ranks did not reach the rendezvous{}{}", job.missing.size(), job.size,
                   job.master.empty() ? "" : ", at ", job.master),
       fmt::format("read what {} printed: a rank that cannot reach the rendezvous prints why. If it printed nothing, "
                   "it was not started, or with another address, port or world size",
                   one ? "it" : "they")}};
}

std::vector<Finding> check_port(const JobFacts& job) {
  std::vector<Finding> findings;
  for (const Facts& facts : job.ranks) {
    if (!facts.port || facts.port->problem.empty()) continue;
    findings.push_back(
        {Severity::error, "port", place(job, facts),
         fmt::format("port {} of the rendezvous cannot be opened: {}", facts.port->number, facts.port->problem),
         "stop that program, or choose a free port (MASTER_PORT, --master_port, ctrl_port), the same on "
         "all hosts; on one host 'lockstep run' chooses one itself"});
  }
  return findings;
}

}  // namespace lockstep::doctor
