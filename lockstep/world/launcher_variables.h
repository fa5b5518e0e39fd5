// The variables that several launcher detections read: rank and size, and the rendezvous. Internal to world/.
#pragma once

#include <lockstep/world/world.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep::detail {

/// The names that a launcher gives to the four numbers.
struct RankVariables {
  std::string_view rank;
  std::string_view size;
  std::string_view local_rank;
  std::string_view local_size;
};

/// A world with rank, size and evidence; nullopt when neither variable is set. Error(environment) naming both when one
/// is missing or rank is not below size.
std::optional<World> read_rank_and_size(const Environment& environment, const RankVariables& names);

/// Fills in local rank and local size when both variables are set; otherwise returns false and changes nothing.
/// Error(environment) when local rank is not below local size, or local size is above size.
bool read_local(const Environment& environment, const RankVariables& names, World& world);

/// Appends " NAME=value".
void add_evidence(World& world, std::string_view name, std::string_view value);

/// Appends " master=HOST:PORT", where the ranks of `world` meet.
void add_master(World& world);

/// MASTER_ADDR, without the brackets of an IPv6 address; nullopt when unset or empty.
std::optional<std::string> find_master_addr(const Environment& environment);

/// MASTER_PORT; Error(environment) unless it is an integer in 1..65535.
std::optional<std::uint16_t> find_master_port(const Environment& environment);

/// " (MASTER_PORT=tcp://10.0.0.1:80 is Kubernetes' own, of a Service named 'master', and does not count)": for messages
/// about the missing variable. Empty without such a value, which find() treats as unset.
std::string note_of_service(const Environment& environment, std::string_view name);

/// The rendezvous port of a job whose launcher's name for it is `job`, where no other setting gives one: from 20480 to
/// 28671, below the ephemeral ports of Linux. All ranks compute the same port.
std::uint16_t port_of_job(std::string_view job);

/// Fills in the address from LOCKSTEP_STORE, "host:port": the store that a launcher hosts only for ranks of Lockstep.
/// Does nothing when it is not set. Error(environment) for another format.
void meet_at_own_store(const Environment& environment, World& world);

/// Whether LOCKSTEP_INIT_METHOD is set to a value other than "env://".
bool has_init_method(const Environment& environment);

/// Rank and size in LOCKSTEP_INIT_METHOD itself, as in "tcp://host:port?rank=1&world_size=2"; nullopt when it has none.
/// Error(environment) when it has only one of them, and when RANK or WORLD_SIZE is set as well.
std::optional<World> rank_of_init_method(const Environment& environment);

/// Fills in rendezvous and address, or path, from LOCKSTEP_INIT_METHOD ("tcp://host:port" or "file:///path"). Returns
/// false and does not change `world` when it has neither ("env://").
bool meet_by_init_method(const Environment& environment, World& world);

}  // namespace lockstep::detail
