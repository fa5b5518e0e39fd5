// Text files in other encodings than UTF-8: detection, and advice on the conversion to UTF-8.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace lockstep::data {

/// Error(data) for text in UTF-16 or UTF-32, in which every other byte is 0 or which begins with a byte order mark. The
/// message names the encoding and a command that converts the file.
void refuse_wide_text(std::string_view text, const std::string& file);

/// "line 3 is not UTF-8 (byte 0xc4); convert the file: iconv -f ..." for text that is not UTF-8. Encodings of one byte
/// per letter (Latin-1) and of several (GBK, Shift JIS) look alike, so the message names all of them.
std::optional<std::string> why_not_utf8(std::string_view text, const std::string& file);

/// Calls refuse_wide_text(), and logs a line for text that is not UTF-8, which is read unchanged.
void check_encoding(std::string_view text, const std::string& file);

}  // namespace lockstep::data
