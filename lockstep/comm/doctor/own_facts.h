// All that this rank knows before it has met the others.
#pragma once

#include <lockstep/comm/doctor/consult.h>

namespace lockstep::doctor {

/// Whether this process is about to open the port where ranks meet, where it is the one to do so. If not, the port is
/// its own already.
enum class OpensPort { yes, no };

/// Asks the machine. Never throws for what is wrong with it: that is in the facts.
Facts own_facts(const Request& request, OpensPort opens_port);

/// For ranks that meet through MPI, which learn only then where the store is: offers the address from which this host
/// reaches it, unless a variable names another.
void offer_route_to_store(Facts& facts, const World& world, const std::string& host, std::uint16_t port);

/// The host part of where ranks meet; empty where that is no host.
std::string master_of(const World& world);

}  // namespace lockstep::doctor
