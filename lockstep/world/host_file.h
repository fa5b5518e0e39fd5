// Lists of hosts with slots, in the formats of batch systems and other launchers: host files, and values of command
// lines or variables. Internal to world/ and cli/.
#pragma once

#include <lockstep/base/environment.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

struct HostSlots {
  std::string host;
  int slots = 1;
  bool slots_given = false;  ///< otherwise the number of times that the host was listed

  bool operator==(const HostSlots&) const = default;
};

/// The hosts of a host file of DeepSpeed, Horovod, Open MPI ("a slots=4"), MPICH ("a:4"), SGE ("a 4 queue@a <NULL>") or
/// PBS and LSF ("a", once for each slot), in the order of their first occurrence. Comments begin with # or //, or are
/// enclosed in /* and */. Slots of a host that is listed several times are added up. `source` names the text in errors:
/// Error(config) with the line, for any other format, and for a text without a host.
std::vector<HostSlots> parse_host_file(std::string_view text, std::string_view source);

/// The same for "a:4,b:4", the value of -H.
std::vector<HostSlots> parse_host_list(std::string_view text, std::string_view source);

/// The hosts that a batch system gave this job.
struct AllocatedHosts {
  std::string source;  ///< the variable, with its value: "PBS_NODEFILE=/var/spool/pbs/aux/12"
  std::string system;  ///< "PBS"
  std::vector<HostSlots> hosts;
};

/// The hosts in PBS_NODEFILE, LSB_DJOB_HOSTFILE, LSB_MCPU_HOSTS, LSB_HOSTS, PE_HOSTFILE, LOADL_HOSTFILE or
/// SLURM_JOB_NODELIST, the first that is set; nullopt without any. Omits the host of LSF's launch node, on which no
/// task runs. Reads the file that a variable names. Error(environment) when it cannot be read.
std::optional<AllocatedHosts> find_allocated_hosts(const Environment& environment);

}  // namespace lockstep
