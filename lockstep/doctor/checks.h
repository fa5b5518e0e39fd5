// The doctor's checks, pure functions from facts to findings, which query nothing of the system; the findings; and
// their reports: for users, for logs, and as JSON.
#pragma once

#include <lockstep/doctor/facts.h>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::doctor {

enum class Severity {
  note,     ///< nothing to do
  warning,  ///< a job will run, but slowly, or with restrictions for other software
  error,    ///< a job will not run
};

/// "note", "warning", "error".
std::string_view name(Severity severity);

/// The result of a check about one place of the job.
struct Finding {
  Severity severity = Severity::note;
  std::string check;  ///< name of the check, e.g. "links"
  std::string where;  ///< "host b (rank 1)", or the failing pair "host a (rank 0) -> host b (rank 1)"
  std::string what;   ///< the rule and the actual values
  std::string fix;    ///< how to fix it

  bool operator==(const Finding&) const = default;
};

/// The number of findings of this severity.
std::size_t count(std::span<const Finding> findings, Severity severity);

/// The result of the diagnosis that all ranks made together.
struct Examination {
  JobFacts job;
  std::vector<Finding> findings;  ///< sorted by severity, errors first
  bool speaks = true;             ///< this rank should print the findings: it is rank 0, or it could not reach the
                                  ///< others
  bool sound = true;              ///< there are no errors; the same on all ranks that could connect
};

/// This rank reaches the rendezvous.
std::vector<Finding> check_rendezvous(const JobFacts& job);
/// No variable breaks its rule: every rank would refuse to start.
std::vector<Finding> check_environment(const JobFacts& job);
/// Every rank of the job is present.
std::vector<Finding> check_presence(const JobFacts& job);
/// Each pair of hosts can connect, both ways, on the addresses they offer.
std::vector<Finding> check_links(const JobFacts& job);
/// The address that a host offers to the other hosts is reachable for them: it is neither a loopback address nor also
/// another host's address.
std::vector<Finding> check_addresses(const JobFacts& job);
/// Virtual interfaces (docker0, veth, virbr, ...) are not used as the network between hosts.
std::vector<Finding> check_interfaces(const JobFacts& job);
/// In a container, other hosts can reach this one.
std::vector<Finding> check_containers(const JobFacts& job);
/// Names resolve, quickly, and to the same addresses everywhere.
std::vector<Finding> check_names(const JobFacts& job);
/// The rendezvous port is free.
std::vector<Finding> check_port(const JobFacts& job);
/// All ranks run the same Lockstep, libtorch and files.
std::vector<Finding> check_versions(const JobFacts& job);
/// Clocks agree within a second.
std::vector<Finding> check_clocks(const JobFacts& job);
/// Reports proxies in the environment.
std::vector<Finding> check_proxies(const JobFacts& job);
/// Shared memory can be created, and /dev/shm is large enough for other software (Lockstep does not use it).
std::vector<Finding> check_shared_memory(const JobFacts& job);
/// The limit of open files is large enough.
std::vector<Finding> check_open_files(const JobFacts& job);
/// There are at least as many CPUs as threads.
std::vector<Finding> check_cpus(const JobFacts& job);
/// Driver and CUDA are compatible, each rank has a GPU of its own, and all hosts have the same GPUs; where there are
/// GPUs.
std::vector<Finding> check_gpus(const JobFacts& job);

/// Runs all checks. The worst findings come first, otherwise in the order above.
std::vector<Finding> examine(const JobFacts& job);

/// Whether an interface of that name belongs to containers or virtual machines, not to a network of hosts.
bool is_virtual_interface(std::string_view name);

/// Whether a host is a container whose ports only its own machine can reach.
bool is_in_network_of_its_own(const Facts& facts);

/// The interface with `address`; nullptr when no interface has it.
const Interface* interface_of(const Facts& facts, std::string_view address);

/// Names of interfaces that could lead to other hosts, with their addresses: "eth0 (10.0.0.1), eth1 (10.1.0.1)";
/// "none" without any.
std::string candidates(const Facts& facts);

/// A summary for users: the examined ranks, the important findings, the verdict. Ends with a newline.
std::string print(const Examination& examination);

/// The errors and warnings, or a line that there are none: for logs. Ends without a newline.
std::string print_findings(const Examination& examination);

/// One JSON object in one line: verdict, findings and all facts. Ends with a newline.
std::string print_json(const Examination& examination);

}  // namespace lockstep::doctor
