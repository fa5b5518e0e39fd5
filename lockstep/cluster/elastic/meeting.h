// Where the ranks of a round meet: the store that node 0's agent opens for them. Values and their JSON.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep::cluster::elastic {

struct Place {
  std::string host;
  std::uint16_t port = 0;
};

std::string to_text(const Place& place);

/// Error(data) when the text is no such thing.
Place parse_place(std::string_view text);

}  // namespace lockstep::cluster::elastic
