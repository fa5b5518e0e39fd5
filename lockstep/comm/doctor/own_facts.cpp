// This rank's facts for the doctor: addresses as connect() chooses them, names, ports, files, devices and settings.
#include <lockstep/base/error.h>
#include <lockstep/comm/backends.h>
#include <lockstep/comm/device/devices.h>
#include <lockstep/comm/doctor/examine_job.h>
#include <lockstep/comm/meet/addresses.h>
#include <lockstep/comm/meet/rendezvous.h>
#include <lockstep/doctor/probe.h>
#include <lockstep/version.h>
#include <lockstep/world/host_addresses.h>

#include <fmt/format.h>
#include <torch/version.h>

namespace lockstep::doctor {
namespace {

// The same choice as in connect(): the address from a variable, else the start of the route to the master, else the
// default of the engines.
void choose_address(Facts& facts, const World& world, const Environment& environment) {
  if (world.rendezvous == Rendezvous::tcp) {
    facts.address = detail::address_for_others(world);
    facts.address_why = fmt::format("the route to the master, {}", world.master_addr);
  } else if (world.rendezvous == Rendezvous::mpi || world.rendezvous == Rendezvous::alone) {
    facts.address = detail::outward_address();
    facts.address_why = "being the first interface that is up";
  } else {
    facts.address = address_of_host_name();
    facts.address_why = "the host's name";
  }
  if (const auto named = detail::named_interface(environment, facts.address)) {
    facts.address = named->address;
    facts.address_named = true;
    facts.address_why = fmt::format("{}={}", named->variable, named->value);
  }
}

// The port that this process opens: as the holder of the store, or, without a job, at some later time.
void probe_rendezvous(Facts& facts, const World& world, const Environment& environment) {
  if (world.rendezvous == Rendezvous::tcp && world.rank == 0 && !world.store_is_external) {
    facts.port = probe_port(world.master_port);
  } else if (world.rendezvous == Rendezvous::alone) {
    const auto port = find_integer(environment, "MASTER_PORT", 1, 65535);
    if (port) facts.port = probe_port(static_cast<std::uint16_t>(*port));
  }
}

// The interface from NCCL's own variable, which may differ from Lockstep's.
void probe_nccl(Gpus& gpus, const Environment& environment, const std::string& usual) {
  const auto names = find(environment, "NCCL_SOCKET_IFNAME").value_or("");
  if (names.empty()) return;
  gpus.nccl_names = names;
  try {
    gpus.nccl_address = detail::named_interface_address({{"NCCL_SOCKET_IFNAME", names}}, usual).value_or("");
  } catch (const Error&) {
    // No interface fits: the check reports this.
  }
}

// A setting that connect() would refuse.
std::string wrong_setting(const Environment& environment) {
  try {
    const auto options = detail::with_environment({}, environment);
    if (!detail::is_for_cuda(options.backend)) return "";
    const auto devices = detail::cuda_devices();
    if (devices.count > 0) return "";
    return fmt::format("LOCKSTEP_BACKEND={} carries CUDA tensors, and this libtorch finds {}", options.backend,
                       detail::describe(devices));
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace

void ask_for_devices(Facts& facts) {
  const int devices = detail::cuda_devices().count;
  facts.gpus.devices = devices;
  facts.gpus.apart = detail::pairs_without_peer_access(devices);
}

void offer_route_to_store(Facts& facts, const World& world, const std::string& host, std::uint16_t port) {
  if (world.rendezvous != Rendezvous::mpi || facts.address_named || host.empty()) return;
  facts.address = detail::address_towards(host, port);
  facts.address_why = fmt::format("the route to rank 0, {}", host);
}

std::string master_of(const World& world) { return world.rendezvous == Rendezvous::tcp ? world.master_addr : ""; }

Facts own_facts(const FactsRequest& request, OpensPort opens_port) {
  const World& world = request.world;
  const Environment& environment = request.environment;
  const WaitLimit wait_limit(std::chrono::seconds(5), request.stop);
  const auto self = detail::this_rank(world, "");
  Facts facts;
  facts.rank = world.rank;
  facts.local_size = world.local_size;
  facts.host = self.host;
  facts.identity = self.host_identity;
  facts.way_in = request.way_in;
  facts.lockstep = version();
  facts.libtorch = TORCH_VERSION;
  probe_machine(facts, environment);
  facts.names.push_back(probe_name(facts.host, wait_limit));
  if (!world.master_addr.empty() && world.master_addr != facts.host) {
    facts.names.push_back(probe_name(world.master_addr, wait_limit));
  }
  for (const auto& file : request.files) facts.files[file.string()] = probe_file(file);
  facts.named_files = probe_command_line();
  for (const auto& [file, hash] : facts.files) facts.named_files.erase(file);
  try {
    choose_address(facts, world, environment);
    if (opens_port == OpensPort::yes) probe_rendezvous(facts, world, environment);
    probe_nccl(facts.gpus, environment, facts.address);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::environment) {
      facts.problem = error.message();
    } else if (world.size > 1) {  // a single rank connects to no other and needs no address
      facts.environment = error.message();
    }
  }
  if (const auto wrong = wrong_setting(environment); !wrong.empty()) facts.environment = wrong;
  facts.gpus.runtime = detail::cuda_version();
  return facts;
}

}  // namespace lockstep::doctor
