// The doctor's facts about each rank and about the links between hosts: plain values, the input of the checks; and
// their form as JSON, for messages between ranks and for `--json`.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::doctor {

/// One address of a network interface that is up.
struct Interface {
  std::string name;
  std::string address;
  bool loopback = false;
};

/// A host name and its addresses as seen on one host; without addresses: it does not resolve there, or not in time.
struct Name {
  std::string name;
  std::vector<std::string> addresses{};
  std::int64_t milliseconds = 0;  ///< duration of the lookup
  bool answered = true;           ///< the resolver answered within the time limit
};

/// A port of this host that a job will use.
struct Port {
  std::uint16_t number = 0;
  std::string problem{};  ///< why it cannot be opened: "taken by python3 (pid 4711)"; empty: it can be opened
};

/// The NVIDIA GPUs of a host, and what this process can use of them.
struct Gpus {
  std::string driver{};               ///< version of the loaded driver, "580.65.06"; empty: none is loaded
  std::vector<std::string> models{};  ///< the models of the host's GPUs
  std::string runtime{};              ///< version of CUDA that libtorch was built for, "13.0"; empty: for CPUs alone
  std::optional<std::int64_t> devices{};  ///< the number that libtorch finds; nullopt: libtorch was not queried
  std::optional<std::string> visible{};   ///< CUDA_VISIBLE_DEVICES
  std::vector<std::string> apart{};       ///< pairs that cannot reach each other's memory: "cuda:0 and cuda:3"
  std::string nccl_names{};               ///< NCCL_SOCKET_IFNAME
  std::string nccl_address{};             ///< the address of that interface; empty: no such interface is up
};

/// "8 NVIDIA H200"; with several models "1 NVIDIA A100 and 7 NVIDIA H200".
std::string describe(const Gpus& gpus);

/// The facts that one rank can determine alone.
struct Facts {
  int rank = 0;
  int local_size = 1;      ///< 0: unknown
  std::string host{};      ///< host name, for messages
  std::string identity{};  ///< equal for ranks that can share memory
  std::string network{};   ///< equal for processes that share interfaces and ports
  std::string way_in{};    ///< how this process was started, and the variables that show it
  std::string lockstep{};  ///< versions
  std::string libtorch{};
  std::string address{};           ///< address that it offers to ranks of other hosts; empty: none is known
  std::string address_why{};       ///< why this address was chosen
  bool address_named = false;      ///< a variable names the interface
  std::uint16_t probe_server = 0;  ///< port of the doctor's probe server at that address; 0: no probe server
  std::string problem{};           ///< why it cannot start, or has no address to offer; empty: no problem
  std::string environment{};       ///< the variable of the environment that breaks its rule, and how; empty: none does
  std::vector<Interface> interfaces{};
  std::vector<Name> names{};                     ///< its own host name and that of the master
  std::map<std::string, std::string> proxies{};  ///< variable to value, without passwords
  std::string no_proxy{};
  bool in_container = false;
  std::uint64_t shm_bytes = 0;   ///< size of /dev/shm; 0: no /dev/shm
  std::string memfd_problem{};   ///< why shared memory cannot be made; empty: it can be made
  std::uint64_t open_files = 0;  ///< soft limit of open files; the next member is the hard limit
  std::uint64_t open_files_hard = 0;
  int cpus = 1;
  Gpus gpus{};
  std::optional<std::int64_t> omp_threads{};
  std::optional<Port> port{};                  ///< MASTER_PORT, if this process would open it
  std::map<std::string, std::string> files{};  ///< files that must be the same on all hosts: SHA-256; empty: unreadable
  std::map<std::string, std::string> named_files{};  ///< the program and the files that its command line names
};

/// One attempt to connect from a host to another, both represented by their first rank.
struct Link {
  int from = 0;
  int to = 0;
  std::string address{};         ///< "10.0.0.2:41234"
  std::string problem{};         ///< empty: the expected rank answered
  double clock_ahead = 0;        ///< seconds that the clock of `to` is ahead of that of `from`
  double clock_uncertainty = 0;  ///< seconds
};

/// The addresses of a name of the job, as one rank sees them.
struct NameSeen {
  int rank = 0;
  Name name;
};

/// The facts of the whole job. Without other ranks, `ranks` has only this process.
struct JobFacts {
  int size = 1;
  std::string master{};  ///< the host of the rendezvous; empty: no rendezvous
  std::vector<Facts> ranks{};
  std::vector<int> missing{};  ///< ranks that did not connect
  std::string unmet{};  ///< why this process, the only one in `ranks`, cannot reach the other ranks; empty if it can
  std::vector<Link> links{};
  std::vector<NameSeen> names{};
};

/// The facts of a rank that connected; nullptr for others.
const Facts* find_rank(const JobFacts& job, int rank);

/// The first rank of each host, in the order of ranks.
std::vector<const Facts*> hosts_of(const JobFacts& job);

/// "host b (rank 1)"; "host b" where the job has one rank
std::string place(const JobFacts& job, const Facts& facts);

// Customization points of nlohmann::json, found by argument-dependent lookup. Missing keys throw its exceptions.
void to_json(nlohmann::json& json, const Facts& facts);
void from_json(const nlohmann::json& json, Facts& facts);
void to_json(nlohmann::json& json, const Link& link);
void from_json(const nlohmann::json& json, Link& link);
void to_json(nlohmann::json& json, const NameSeen& seen);
void from_json(const nlohmann::json& json, NameSeen& seen);

}  // namespace lockstep::doctor
