// Text files in other encodings than UTF-8: what they are, and how they become UTF-8.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace lockstep::data {

/// Error(data) for text in UTF-16 or UTF-32, whose every other byte is 0 or which begins with their mark: it says so,
/// and which command converts the file.
void refuse_wide_text(std::string_view text, const std::string& file);

/// "line 3 is not UTF-8 (byte 0xc4); convert the file: iconv -f ..." for text that is not UTF-8. Other encodings of
/// one byte a letter (Latin-1) and of several (GBK, Shift JIS) look alike, so it names them all.
std::optional<std::string> why_not_utf8(std::string_view text, const std::string& file);

/// refuse_wide_text(), and a line in the log for text that is not UTF-8, which is read as it is.
void check_encoding(std::string_view text, const std::string& file);

}  // namespace lockstep::data
