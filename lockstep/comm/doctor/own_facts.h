// The facts that this rank can collect before the rendezvous.
#pragma once

#include <lockstep/comm/doctor/consult.h>

namespace lockstep::doctor {

/// Whether this process will still open the rendezvous port, where that is its task. `no`: it has opened the port
/// already.
enum class OpensPort { yes, no };

/// Collects the facts of this machine. Does not throw for problems of the machine: they are in the facts.
Facts own_facts(const Request& request, OpensPort opens_port);

/// For a rendezvous through MPI, in which ranks learn only then where the store is: offers the address from which this
/// host reaches it, unless a variable names another.
void offer_route_to_store(Facts& facts, const World& world, const std::string& host, std::uint16_t port);

/// The host of the rendezvous; empty where it has none.
std::string master_of(const World& world);

}  // namespace lockstep::doctor
