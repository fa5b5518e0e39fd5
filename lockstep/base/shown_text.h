// Texts in messages: long foreign ones are cut, binary files are named by their type, addresses are written in one way.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep {

/// `text`; if it has more than `most` bytes, its beginning and its length: "aaaa... (10485760 bytes)". UTF-8 characters
/// are not split.
std::string cut_text(std::string_view text, std::size_t most = 80);

/// The type of a file that begins with these bytes, when it is a known binary type: "a zip archive", "an ELF program";
/// empty otherwise. 8 bytes are enough.
std::string_view kind_of_file(std::string_view begin);

/// "host:port", and "[::1]:port" for an IPv6 address.
std::string host_and_port(std::string_view host, std::uint16_t port);

}  // namespace lockstep
