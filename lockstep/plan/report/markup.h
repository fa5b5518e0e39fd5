// Escaping of text for HTML and SVG: the replacement of & < > " ' by entities.
#pragma once

#include <string>
#include <string_view>

namespace lockstep::plan {

/// `text` in a form for use between tags and in an attribute's value, in either kind of quotes.
inline std::string escaped_markup(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      default: out += c;
    }
  }
  return out;
}

}  // namespace lockstep::plan
