// Base64 (RFC 4648, section 4): bytes as text.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace lockstep {

/// With padding, without line breaks.
std::string to_base64(std::string_view bytes);

/// The bytes; nullopt when `text` is not exactly the text that `to_base64` would write.
std::optional<std::string> from_base64(std::string_view text);

}  // namespace lockstep
