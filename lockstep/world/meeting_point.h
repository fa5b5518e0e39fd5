// The rendezvous address: LOCKSTEP_INIT_METHOD, or MASTER_ADDR and MASTER_PORT. Internal to world/.
#pragma once

#include <lockstep/world/world.h>

#include <cstdint>
#include <optional>
#include <string>

namespace lockstep::detail {

/// MASTER_ADDR, without the brackets of an IPv6 address; nullopt when unset or empty.
std::optional<std::string> find_master_addr(const Environment& environment);

/// MASTER_PORT; Error(environment) unless it is an integer in 1..65535.
std::optional<std::uint16_t> find_master_port(const Environment& environment);

/// Fills in the address from LOCKSTEP_STORE, "host:port": the store that a launcher hosts only for ranks of Lockstep.
/// Does nothing when it is not set. Error(environment) for another format.
void meet_at_own_store(const Environment& environment, World& world);

/// Whether LOCKSTEP_INIT_METHOD is set to a value other than "env://".
bool has_init_method(const Environment& environment);

/// Rank and size in LOCKSTEP_INIT_METHOD itself, as in "tcp://host:port?rank=1&world_size=2"; nullopt when it has none.
/// Error(environment) when it has only one of them, and when RANK or WORLD_SIZE is set as well.
std::optional<World> rank_of_init_method(const Environment& environment);

/// Fills in meeting and address, or path, from LOCKSTEP_INIT_METHOD ("tcp://host:port" or "file:///path"). Returns
/// false and does not change `world` when it has neither ("env://").
bool meet_by_init_method(const Environment& environment, World& world);

}  // namespace lockstep::detail
