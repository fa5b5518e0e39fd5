// The rendezvous of a round's ranks: the address of the store that node 0's agent opens. Values and their JSON.
#pragma once

#include <lockstep/cluster/rank_environment.h>
#include <lockstep/cluster/service_events.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep::cluster::elastic {

struct Place {
  std::string host;
  std::uint16_t port = 0;
  OwnStoreAddress own_store{};              ///< where ranks of Lockstep meet instead
  std::optional<ServiceAddress> service{};  ///< with which ranks register, so that lost ones can be replaced
};

std::string to_text(const Place& place);

/// Error(data) when the text is not the JSON of such a value.
Place parse_place(std::string_view text);

}  // namespace lockstep::cluster::elastic
