// The files in page/, as the build embeds them (cmake/EmbedPage.cmake writes the definitions).
#pragma once

#include <string_view>

namespace lockstep::dashboard {

extern const std::string_view kPageHtml;
extern const std::string_view kPageStyle;
extern const std::string_view kPageScript;

}  // namespace lockstep::dashboard
