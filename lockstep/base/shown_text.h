// Texts in messages: text from outside is escaped and cut, binary files are named by their type, addresses are written
// in one way.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep {

/// Text from outside, as an error quotes it: on one line, and harmless for a terminal and a log. Characters that are
/// not printable are escaped (line breaks and tabs as \n, \r and \t; other control characters and bytes that are not
/// UTF-8 as \x1b; marks that change the direction of text, and byte order marks, as \u202e). If `text` has more than
/// `most` bytes, returns its beginning and its length: "aaaa... (10485760 bytes)". UTF-8 characters are not split.
std::string cut_text(std::string_view text, std::size_t most = 80);

/// A whole message, whose quotes may not all have been cut: line breaks and tabs stay, other characters that are not
/// printable are escaped as above, and a line of more than 3000 bytes loses its middle: its beginning has the mistake,
/// its end the remedy. Applying this again changes nothing.
std::string shown_message(std::string_view message);

/// The type of a file that begins with these bytes, when it is a known binary type: "a zip archive", "an ELF program";
/// empty otherwise. 8 bytes are enough.
std::string_view kind_of_file(std::string_view begin);

/// "host:port", and "[::1]:port" for an IPv6 address.
std::string host_and_port(std::string_view host, std::uint16_t port);

}  // namespace lockstep
