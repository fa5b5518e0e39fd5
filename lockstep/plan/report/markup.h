// Escaping of text for HTML and SVG.
#pragma once

#include <string>
#include <string_view>

namespace lockstep::plan {

/// `text` in a form for use between tags and in an attribute's value, in either kind of quotes.
std::string escaped_markup(std::string_view text);

}  // namespace lockstep::plan
