// Texts in messages, beside cut_text() of base/text.h: whole messages, types of binary files, ranks, and addresses,
// which are read here, too.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// A whole message, whose quotes may not all have been cut: line breaks and tabs stay, other characters that are not
/// printable are escaped as in cut_text(), and a line of more than 3000 bytes loses its middle: its beginning has the
/// mistake, its end the remedy. Applying this again changes nothing.
std::string shown_message(std::string_view message);

/// The type of a file that begins with these bytes, when it is a known binary type: "a zip archive", "an ELF program";
/// empty otherwise. 8 bytes are enough.
std::string_view kind_of_file(std::string_view begin);

/// "host:port", and "[::1]:port" for an IPv6 address.
std::string host_and_port(std::string_view host, std::uint16_t port);

struct HostPort {
  std::string host;                   ///< without brackets
  std::optional<std::uint16_t> port;  ///< nullopt: not given
};

/// Reads "h", "h:80", "10.0.0.1:80", "[::1]", "[::1]:80" or "::1". nullopt for anything else: no host, a blank or '/'
/// in it, a port that is not from 0 to 65535.
std::optional<HostPort> parse_host_and_port(std::string_view text);

/// An address to listen at: "HOST:PORT", or "PORT" of 127.0.0.1; 0 is a free port. nullopt for anything else.
std::optional<HostPort> parse_listening_address(std::string_view text);

/// "rank 2", "ranks 0, 1, 2, 3, 4, 5, 6, 7 and 12 more".
std::string names_of_ranks(const std::vector<int>& ranks);

}  // namespace lockstep
