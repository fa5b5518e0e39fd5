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

/// LOCKSTEP_STORE, "host:port": where a launcher hosts a store for ranks of Lockstep alone. Fills in the address;
/// nothing when it is not set. Error(environment) for anything else.
void meet_at_own_store(const Environment& environment, World& world);

/// Whether LOCKSTEP_INIT_METHOD says anything, i.e. is set to anything but "env://".
bool has_init_method(const Environment& environment);

/// Rank and size that LOCKSTEP_INIT_METHOD itself gives, as in "tcp://host:port?rank=1&world_size=2"; nullopt when it
/// gives none. Error(environment) for half of them, and when RANK or WORLD_SIZE is set as well.
std::optional<World> rank_of_init_method(const Environment& environment);

/// Fills in meeting, address or path as LOCKSTEP_INIT_METHOD says ("tcp://host:port" or "file:///path"). False, and
/// `world` as it was, when it names no place ("env://").
bool meet_by_init_method(const Environment& environment, World& world);

/// Whether `address` always means this host: localhost, 127.x.x.x, ::1.
bool is_loopback(std::string_view address);

}  // namespace lockstep::detail
